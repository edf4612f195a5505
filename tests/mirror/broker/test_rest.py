"""REST of a mirror that runs: what it shows, pause, resume, stop and restart, and that they outlive the process."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from semel import cli
from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.mirror.config.properties import read_properties
from semel.mirror.flow import Flow
from semel.mirror.operation.offsets import set_positions
from semel.sandbox import Sandbox
from semel.steps import AdoptionStep, MirrorStep, Step, timed
from semel.wire.client import Client
from tests.mirror.support.harness import alias_of, copy_once, mm2, produce, records, unique
from tests.mirror.support.operating import REST, operated
from tests.support import topics
from tests.support.waiting import wait_for


def new(a: Sandbox, b: Sandbox, directory: Path, **keys: str) -> tuple[Path, str, str]:
    """A file with REST, its source topic, and its target topic."""
    topic = topics.create(a.bootstrap_servers, unique("operate"), 2)
    file = mm2(directory, a, b, f"{topic}.*", **REST, refresh__topics__interval__seconds="1", **keys)
    return file, topic, f"{alias_of(file)}.{topic}"


def write(a: Sandbox, topic: str, *values: str) -> None:
    produce(a, topic, [{"value": value, "partition": 0} for value in values])


def values(b: Sandbox, target: str) -> list[str]:
    found = records(b, target)
    return [(value or b"").decode() for _, value, _, _ in found[0]] if found else []


def all_values(b: Sandbox, target: str) -> list[str]:
    """The values of all partitions, one after the other."""
    return [(value or b"").decode() for _, found in sorted(records(b, target).items()) for _, value, _, _ in found]


def run(file: Path, command: str, *options: str) -> str:
    where = ["--source", alias_of(file), "--target", "B"]
    shown = CliRunner().invoke(cli.app, ["mirror", command, str(file), *where, *options])
    if shown.exception is not None:
        raise shown.exception
    return " ".join(shown.output.split())


def test_a_flow_is_shown_paused_stopped_and_resumed(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    file, topic, target = new(a, b, tmp_path)
    write(a, topic, "0", "1")
    with operated(spark, file) as mirror:
        wait_for(lambda: values(b, target) == ["0", "1"], "two records")
        assert mirror.ask("GET", "/")[1].keys() == {"version", "commit", "kafka_cluster_id"}
        assert mirror.ask("GET", "/health")[1]["status"] == "healthy"
        assert mirror.ask("GET", "/connectors") == (200, [mirror.name])
        info, status = (mirror.ask("GET", f"/connectors?expand={of}")[1][mirror.name][of] for of in ("info", "status"))
        assert (info["type"], info["tasks"]) == ("source", [{"connector": mirror.name, "task": 0}])
        assert info["config"]["connector.class"].endswith(".MirrorSourceConnector")
        assert status.keys() == {"name", "connector", "tasks", "type"}
        assert [one["state"] for one in (status["connector"], *status["tasks"])] == ["RUNNING", "RUNNING"]
        assert mirror.of_flow("GET", "/topics") == (200, {mirror.name: {"topics": [target]}})
        shown = mirror.of_flow("GET", "/offsets")[1]["offsets"]
        assert shown == [
            {"partition": {"cluster": alias_of(file), "partition": 0, "topic": topic}, "offset": {"offset": 1}}
        ]
        assert mirror.ask("GET", "/connectors/none/status")[0] == 404

        assert mirror.of_flow("PUT", "/pause") == (202, None)
        mirror.wait_state("PAUSED")
        write(a, topic, "2")
        wait_for(lambda: sum(mirror.flows[0].meter.lag.values()) == 1, "the lag to be seen")
        assert values(b, target) == ["0", "1"]
    with pytest.raises(ConfigError, match="FLOW_PAUSED"):
        copy_once(spark, file)
    with operated(spark, file) as mirror:
        mirror.wait_state("PAUSED")
        wait_for(lambda: sum(mirror.flows[0].meter.lag.values()) == 1, "the lag to be seen")
        assert mirror.of_flow("PUT", "/stop") == (204, None)
        mirror.wait_state("STOPPED")
        assert mirror.of_flow("GET", "/status")[1]["tasks"] == []
        assert mirror.of_flow("PUT", "/resume") == (202, None)
        wait_for(lambda: values(b, target) == ["0", "1", "2"], "the third record")
        assert mirror.of_flow("POST", "/restart?includeTasks=true")[0] == 202
        write(a, topic, "3")
        wait_for(lambda: values(b, target) == ["0", "1", "2", "3"], "the fourth record")
        assert not mirror.failed


@pytest.mark.exhaustive  # its sample is the page's test
def test_one_topic_is_paused_by_a_command_while_the_mirror_runs(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    file, topic, target = new(a, b, tmp_path)
    other = topics.create(a.bootstrap_servers, f"{topic}-too", 1)
    shown = run(file, "pause", "--topic", topic)  # before it has ever run
    assert shown.endswith(f"is running paused alone: {topic}")
    write(a, topic, "0")
    write(a, other, "0")
    with operated(spark, file) as mirror:
        wait_for(lambda: values(b, f"{target}-too") == ["0"], "the other topic")
        assert values(b, target) == []
        assert run(file, "resume", "--topic", topic).endswith("is running")
        wait_for(lambda: values(b, target) == ["0"], "the topic that was paused")
        assert mirror.of_flow("PUT", f"/topics/{topic}/pause") == (202, None)
        wait_for(lambda: mirror.flows[0].meter.paused_topics == {topic}, "the pause to be seen")
        write(a, topic, "1")
        write(a, other, "1")
        wait_for(lambda: values(b, f"{target}-too") == ["0", "1"], "the other topic")
        assert values(b, target) == ["0"]
        assert mirror.of_flow("PUT", "/topics/none/pause")[0] == 404
        shown = CliRunner().invoke(cli.app, ["mirror", "status", str(file), "--json"]).output
        assert {one["topic"]: one["paused"] for one in json.loads(shown)} == {topic: True, other: False}
        assert run(file, "pause").endswith(f"is paused paused alone: {topic}")
        mirror.wait_state("PAUSED")
        assert run(file, "resume").endswith(f"is running paused alone: {topic}")
        assert mirror.of_flow("PUT", f"/topics/{topic}/resume") == (202, None)
        wait_for(lambda: values(b, target) == ["0", "1"], "the topic that was paused")
        assert not mirror.failed


def test_offsets_are_set_while_the_flow_is_stopped(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    """M2 and M14: rewound, moved on, reset, and each wrong request refused."""
    file, topic, target = new(a, b, tmp_path)
    other = topics.create(a.bootstrap_servers, f"{topic}-too", 1)
    write(a, topic, *"01234")
    write(a, other, "kept")
    cluster = alias_of(file)

    def at(offset: object, index: object = 0, **more: object) -> dict[str, object]:
        return {"partition": {"cluster": cluster, "partition": index, "topic": topic, **more}, "offset": offset}

    with operated(spark, file) as mirror:
        wait_for(lambda: values(b, target) == list("01234"), "five records")
        wait_for(lambda: values(b, f"{target}-too") == ["kept"], "the other topic")
        status, refused = mirror.of_flow("PATCH", "/offsets", {"offsets": [at({"offset": 2})]})
        assert (status, "must be in the STOPPED state" in refused["message"]) == (400, True)
        assert mirror.of_flow("PUT", "/stop")[0] == 204
        for wrong, expected in (
            ([], "need to be provided"),
            ([at({"offset": -1})], "0 or more"),
            ([at({"offset": "2"})], "0 or more"),
            ([at({"offset": 2}, cluster="other")], "and not 'other'"),
            ([at({"offset": 2}, index="0")], "A partition is"),
            ([at({"offset": 2}, more=1)], "A partition is"),
            ([at({"offset": 2}), at({"offset": 3})], "named twice"),
            ([at({"offset": 2}, index=7)], "does not mirror"),
            ([at({"offset": 5})], "offset 6 is beyond the end, 5"),
        ):
            status, refused = mirror.of_flow("PATCH", "/offsets", {"offsets": wrong})
            assert status in (400, 404), refused
            assert expected in refused["message"], refused
        # at once: the flow may not have seen yet that it is stopped
        status, done = mirror.of_flow("PATCH", "/offsets", {"offsets": [at({"offset": 2})]})
        assert (status, done["message"]) == (200, "The offsets for this connector have been altered successfully")
        shown = {row["partition"]["topic"]: row["offset"] for row in mirror.of_flow("GET", "/offsets")[1]["offsets"]}
        assert shown == {topic: {"offset": 2}, other: {"offset": 0}}
        assert mirror.of_flow("PUT", "/resume")[0] == 202
        wait_for(lambda: values(b, target) == list("0123434"), "two records again")
        run(file, "stop")
        (tmp_path / "offsets.json").write_text(f'[{{"topic": "{topic}", "partition": 0, "offset": 5}}]')
        run(file, "offsets", "--reset", "--topic", topic, "--yes")
        assert f"{topic}-0 0" in run(file, "offsets", "--topic", topic)
        run(file, "offsets", "--set", str(tmp_path / "offsets.json"), "--yes")
        write(a, topic, "5")
        run(file, "resume")
        wait_for(lambda: values(b, target) == list("01234345"), "the new record alone")
        run(file, "stop")
        assert mirror.of_flow("DELETE", "/offsets")[0] == 200
        run(file, "resume")
        wait_for(lambda: values(b, target) == list("01234345012345"), "all records again")
        assert values(b, f"{target}-too") == ["kept", "kept"]
        assert not mirror.failed


def test_what_is_copied_while_offsets_are_set_is_not_copied_again(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    """Another operator lets the flow run for a moment, or its last round is still going on: one partition is set, and
    the other one stays where the flow has come to.
    """
    file, topic, target = new(a, b, tmp_path)
    produce(a, topic, [{"value": value, "partition": index} for index, value in enumerate(("a", "b"))])
    (config,) = read_properties(file).flows

    with operated(spark, file) as mirror:

        def meanwhile(step: Step, _: float) -> None:
            if step is AdoptionStep.PREDECESSOR_FENCED:
                assert mirror.of_flow("PUT", "/resume")[0] == 202
                produce(a, topic, [{"value": "B", "partition": 1}])
                wait_for(lambda: all_values(b, target) == ["a", "b", "B"], "the record of the other partition")
                assert mirror.of_flow("PUT", "/stop")[0] == 204
                mirror.wait_state("STOPPED")

        wait_for(lambda: all_values(b, target) == ["a", "b"], "two records")
        assert mirror.of_flow("PUT", "/stop")[0] == 204
        mirror.wait_state("STOPPED")
        with (
            Client(ClientConfig.parse(config.source)) as source,
            Client(ClientConfig.parse(config.target)) as there,
            timed(meanwhile),
        ):
            set_positions(source, there, config, {(topic, 0): 0})
        assert mirror.of_flow("PUT", "/resume")[0] == 202
        wait_for(lambda: len(all_values(b, target)) > 3, "the record that is asked for again")
        produce(a, topic, [{"value": "last", "partition": 1}])
        wait_for(lambda: "last" in all_values(b, target), "the last record")
        assert all_values(b, target) == ["a", "a", "b", "B", "last"]
        assert not mirror.failed


def test_a_run_to_the_end_says_so_where_it_is_stopped_in_between(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    """``--once`` of a scheduler: an end without an error would mean that all was copied."""
    file, topic, target = new(a, b, tmp_path)
    write(a, topic, "0")
    (config,) = read_properties(file).flows

    def copy(*commands: str) -> None:
        left = [*commands]
        flow = Flow(spark, config, threading.Event())

        def meanwhile(step: Step, _: float) -> None:
            if step is MirrorStep.TOPICS_FOLLOWED and left:
                while left:
                    run(file, left.pop(0))
                wait_for(flow._restart.is_set, "the stop to be seen")

        with timed(meanwhile):
            flow.run(once=True)

    with pytest.raises(ConfigError, match="FLOW_PAUSED"):
        copy("stop")
    run(file, "resume")
    write(a, topic, "1")
    copy("stop", "resume")
    assert values(b, target) == ["0", "1"]
