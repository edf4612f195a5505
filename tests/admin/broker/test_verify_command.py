"""``semel verify``: what it says of topics that a client that is not ours has written, and what it ends with."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from semel import cli
from tests.support import topics
from tests.support.other_client import Transactional, produce

_numbers = count(1)


class Pair:
    """A source, and what was made of it."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        number = next(_numbers)
        self.source, self.topic = (topics.create(servers, f"verify-{end}-{number}", 2) for end in ("in", "out"))

    def write(self, topic: str, *ids: object, **more: Any) -> None:
        """Each with its id as key, in a header, and in a JSON value; id ``i`` is on partition ``i % 2``."""
        produce(self.servers, topic, [self.row(one) | more for one in ids])

    def row(self, one: object) -> dict[str, Any]:
        value = json.dumps({"order": {"id": one, "lines": [f"line {one}"]}})
        return {"key": str(one), "value": value, "headers": [("id", str(one).encode())], "partition": hash(one) % 2}

    def run(self, *arguments: str, id: str = "key") -> Result:
        command = ["verify", "--topic", self.topic, "--id", id, *arguments, "--bootstrap-server", self.servers]
        return CliRunner().invoke(cli.app, command)

    def found(self, *arguments: str, id: str = "key") -> tuple[int, dict[str, Any]]:
        done = self.run("--json", *arguments, id=id)
        return done.exit_code, json.loads(done.stdout)


@pytest.fixture
def pair(servers: str) -> Pair:
    return Pair(servers)


@pytest.mark.parametrize("id", ["key", "header:id", "json:$.order.id", "json:$.order.lines[0]"])
def test_all_once_is_clean_and_losses_are_not_claimed(pair: Pair, id: str) -> None:
    pair.write(pair.topic, *range(20))
    done = pair.run(id=id)
    assert done.exit_code == 0
    assert "20 records read" in done.stdout
    assert re.search("losses +not checked", done.stdout)
    status, found = pair.found(id=id)
    assert (status, found["clean"], found["ids"], found["duplicated"], found["lost"], found["strangers"]) == (
        0,
        True,
        20,
        0,
        None,
        None,
    )
    assert found["topic"]["ranges"] == [{"partition": 0, "from": 0, "to": 10}, {"partition": 1, "from": 0, "to": 10}]


def test_a_duplicate_is_named_with_its_places(pair: Pair) -> None:
    pair.write(pair.topic, *range(6), 4, 4, 3)
    status, found = pair.found()
    assert (status, found["duplicated"], found["surplus_records"]) == (1, 2, 3)
    assert sorted(found["examples"]["duplicated"], key=lambda one: str(one["id"])) == [
        {
            "id": "3",
            "times": 2,
            "times_in_source": None,
            "first": [{"partition": 1, "offset": 1}, {"partition": 1, "offset": 3}],
        },
        {"id": "4", "times": 3, "times_in_source": None, "first": [{"partition": 0, "offset": at} for at in (2, 3, 4)]},
    ]
    text = pair.run().stdout
    assert "2 ids" in text
    assert "3 records too many" in text
    assert "0: 2, 0: 3, 0: 4" in text


def test_losses_and_strangers_against_the_source(pair: Pair) -> None:
    pair.write(pair.source, *range(10))
    pair.write(pair.topic, 0, 1, 2, 3, 4, 5, 6, 7, 99)
    status, found = pair.found("--against", pair.source)
    assert (status, found["duplicated"], found["lost"], found["strangers"]) == (1, 0, 2, 1)
    assert [(one["id"], one["first"]) for one in sorted(found["examples"]["lost"], key=lambda one: str(one["id"]))] == [
        ("8", [{"partition": 0, "offset": 4}]),
        ("9", [{"partition": 1, "offset": 4}]),
    ]
    assert [one["id"] for one in found["examples"]["strangers"]] == ["99"]
    text = pair.run("--against", pair.source).stdout
    assert "not checked" not in text
    assert "semel progress list" in text


def test_ids_that_stand_elsewhere_in_the_source(pair: Pair) -> None:
    pair.write(pair.source, *range(10), key=None)
    pair.write(pair.topic, *range(10))
    assert pair.found("--against", pair.source, "--against-id", "json:$.order.id")[0] == 0
    status, found = pair.found("--against", pair.source)
    assert (status, found["source"]["without_id"]["records"], found["strangers"]) == (1, 10, 10)


def test_what_the_source_itself_repeats_is_no_duplicate(pair: Pair) -> None:
    pair.write(pair.source, 1, 2, 2, 3, 3)
    pair.write(pair.topic, 1, 2, 2, 3)
    status, found = pair.found("--against", pair.source)
    assert (status, found["duplicated"], found["repeated_in_source"], found["fewer_than_in_source"]) == (3, 0, 1, 1), (
        "one of them may be lost"
    )
    pair.write(pair.topic, 3)
    assert pair.found("--against", pair.source)[0] == 0
    assert pair.found()[1]["duplicated"] == 2


def test_records_without_an_id_are_counted_and_not_clean(pair: Pair) -> None:
    pair.write(pair.topic, 1, 2)
    produce(pair.servers, pair.topic, [{"value": "no JSON"}])
    status, found = pair.found(id="json:$.order.id")
    assert (status, found["duplicated"], found["topic"]["without_id"]) == (
        1,
        0,
        {"records": 1, "first": [{"partition": 0, "offset": 1}]},
    )
    assert "1 record without an id" in pair.run(id="json:$.order.id").stdout


def test_only_what_a_read_committed_reader_sees(pair: Pair) -> None:
    """The rows of an aborted transaction are no duplicates, and what is behind an open one is not read, and said so."""
    writer = Transactional(pair.servers, pair.topic)
    pair.write(pair.topic, 0, 2)
    writer.write(pair.topic, [pair.row(0)])
    writer.end(commit=False)
    writer.write(pair.topic, [pair.row(2)])
    pair.write(pair.topic, 4)
    status, found = pair.found()
    assert (status, found["topic"]["records"], found["topic"]["behind_open_transactions"]) == (0, 2, 2)
    assert "semel txn list" in pair.run().stdout
    writer.end(commit=True)
    status, found = pair.found()
    assert (status, found["duplicated"], found["topic"]["records"], found["topic"]["behind_open_transactions"]) == (
        1,
        1,
        4,
        0,
    )


def test_a_part_of_a_topic(pair: Pair) -> None:
    pair.write(pair.topic, 0, 2, 4, timestamp=1_000_000)
    pair.write(pair.topic, 0, 6, 8, timestamp=2_000_000)
    assert pair.found()[1]["duplicated"] == 1
    status, found = pair.found("--from", '{"0": 1, "1": 0}', "--to", '{"0": 5, "1": -1}')
    assert (status, found["ids"], found["topic"]["ranges"]) == (0, 4, [{"partition": 0, "from": 1, "to": 5}])
    assert pair.found("--from", "1970-01-01T00:33:00+00:00")[1]["ids"] == 3
    assert pair.found("--to", "1970-01-01T00:33:00+00:00")[1]["ids"] == 3


def test_a_part_without_a_record_shows_nothing(pair: Pair) -> None:
    pair.write(pair.topic, 1, 2)
    done = pair.run("--from", "2999-01-01T00:00:00+00:00")
    assert done.exit_code == 1
    assert "not one record lies there" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--id", "json:$..id"], "no plain JSON path"),
        (["--from", "yesterday"], "is no place in a topic"),
        (["--to", '{"0": "many"}'], "is no place in a topic"),
        (["--from", '{"7": 1}'], "needs its own offset"),
        (["--against", "no-such-topic"], "no-such-topic does not exist"),
        (["--against-to", "latest", "--against-id", "key"], "Name it"),
        (["--topic", "no-such-topic"], "no-such-topic does not exist"),
        (["--temporary-directory", "/no/such/folder"], "could not be kept on disk in /no/such/folder"),
    ],
)
def test_what_cannot_be_looked_at_is_said_with_status_2(pair: Pair, arguments: list[str], told: str) -> None:
    done = pair.run(*arguments)
    assert done.exit_code == 2
    assert told in done.stderr
    assert done.stdout == ""


def test_a_cluster_that_does_not_answer(tmp_path: Any) -> None:
    quick = tmp_path / "quick.properties"
    quick.write_text("default.api.timeout.ms=200\nrequest.timeout.ms=100\n")
    arguments = [
        "verify",
        "--topic",
        "t",
        "--id",
        "key",
        "--bootstrap-server",
        "127.0.0.1:1",
        "--command-config",
        str(quick),
    ]
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 2
    assert "127.0.0.1:1" in done.stderr
