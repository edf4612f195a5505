"""Where a connector says that its transactions end, and what is said of its promises before the start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from semel.config import ClientConfig
from semel.connect import Setting, SourceConnector, SourceRecord, SourceTask, TransactionContext
from semel.connect.settings.connector_config import ConnectorConfig, ConnectorConfigParser
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.stores.offsets import OffsetStore
from semel.connect.tasks.boundaries import Boundary, End, boundary_of
from semel.connect.tasks.writers import ExactlyOnce
from semel.wire.client import Client

WORKER = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "g",
    "offset.storage.topic": "offsets",
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
    "exactly.once.source.support": "enabled",
}
SAID: Mapping[str, bool | None] = {"yes": True, "no": False, "null": None}


class Says(SourceConnector):
    """Answers as it is told."""

    config: ClassVar[Mapping[str, type | Setting]] = {"says": str}

    def task(self) -> SourceTask:
        return SourceTask()

    def exactly_once_support(self, config: Mapping[str, Any]) -> bool | None:
        return self._say(config)

    def can_define_transaction_boundaries(self, config: Mapping[str, Any]) -> bool | None:
        return self._say(config)

    def _say(self, config: Mapping[str, Any]) -> bool | None:
        if config["says"] == "throws":
            raise LookupError("no such schema")
        return SAID[config["says"]]


def _given(says: str, **more: str) -> dict[str, str]:
    return {"name": "c", "connector.class": "tests.connect.unit.test_boundaries.Says", "says": says, **more}


@pytest.mark.parametrize("setting", ["exactly.once.support", "transaction.boundary"])
@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("yes", ""),
        ("no", "does not support"),
        ("null", "API for preflight validation|null .* not permitted"),
        ("throws", "unexpected error .* LookupError: no such schema"),
    ],
)
def test_what_a_connector_promises_is_asked_before_the_start(setting: str, says: str, words: str) -> None:
    value = "required" if setting == "exactly.once.support" else "CONNECTOR"
    problems = ConnectorConfigParser(_given(says, **{setting: value}), WorkerConfig.parse(WORKER)).problems
    assert [one.setting for one in problems] == ([setting] if words else [])
    if words:
        assert re.search(words, problems[0].text)


@pytest.fixture
def boundary() -> Boundary:
    config = ConnectorConfig.parse(_given("yes", **{"transaction.boundary": "connector"}), WorkerConfig.parse(WORKER))
    client = Client(ClientConfig.parse({"bootstrap.servers": "localhost:9092"}))
    return boundary_of(config, ExactlyOnce(client, "g-c-0", OffsetStore(client, "offsets", "c")), SourceTask())


def test_what_is_asked_of_a_record_counts_before_what_is_asked_of_its_poll(boundary: Boundary) -> None:
    first, second, third = (SourceRecord("t", str(number), {"p": 1}, {"n": number}) for number in range(3))
    context = boundary.context
    assert context is not None
    context.abort_transaction()
    context.commit_transaction(third)
    assert list(boundary.split([first, second, third])) == [([first, second, third], End.COMMIT)]
    context.commit_transaction()
    context.abort_transaction(second)
    assert list(boundary.split([first, second, third])) == [([first, second], End.ABORT), ([third], End.COMMIT)]
    assert list(boundary.split([first])) == [([first], End.NONE)], "each is asked once"
    context.commit_transaction()
    assert list(boundary.split([])) == []
    assert list(boundary.split([first])) == [([first], End.NONE)], "it was asked of the poll before"


def test_commit_and_abort_at_one_place_are_refused() -> None:
    context, record = TransactionContext(), SourceRecord("t", "x", {"p": 1}, {"n": 1})
    context.commit_transaction()
    context.commit_transaction(record)
    with pytest.raises(ValueError, match="both asked for"):
        context.abort_transaction()
    with pytest.raises(ValueError, match="both asked for"):
        context.abort_transaction(record)
