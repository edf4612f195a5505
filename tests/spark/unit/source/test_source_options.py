"""The options of the source: Spark's names, meanings and defaults, and what is refused before anything is read."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from semel.errors import ConfigError, Unsupported
from semel.read import AtOffsets, AtTimestamp, Earliest, Latest
from semel.spark.jvm.versions.planner import Limits
from semel.spark.source.options import Resume, SourceOptions
from semel.spark.source.selection import Assign, Subscribe, SubscribePattern

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
TOPIC = {**SERVERS, "subscribe": "in"}


def parse(**options: object) -> SourceOptions:
    """Names with a dot are given as a dictionary."""
    return SourceOptions.parse({**TOPIC, **options})


def refused(match: str, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=match):
        SourceOptions.parse({**SERVERS, **given})


def test_the_defaults_are_those_of_spark() -> None:
    options = parse()
    assert options.selection == Subscribe(("in",))
    assert options.for_stream() == Latest()
    assert options.for_batch() == (Earliest(), Latest())
    assert options.limits == Limits(None, None, 15 * 60 * 1000)
    assert (options.fail_on_data_loss, options.headers, options.read_committed) == (True, False, True)
    assert (options.min_partitions, options.max_records, options.group) == (None, None, None)


def test_names_are_matched_without_regard_to_case_as_spark_hands_them_over() -> None:
    given = CaseInsensitiveDict(
        {**TOPIC, "startingOffsets": "EARLIEST", "failOnDataLoss": "FALSE", "kafka.Group.Id": "g"}
    )
    assert "failondataloss" in given.data
    options = SourceOptions.parse(given)
    assert (options.for_stream(), options.fail_on_data_loss, options.group) == (Earliest(), False, "g")


def test_what_to_read() -> None:
    assert parse(subscribe=" a, b ,a,").selection == Subscribe(("a", "b"))
    assert SourceOptions.parse({**SERVERS, "subscribePattern": "a.*"}).selection == SubscribePattern("a.*")
    assert SourceOptions.parse({**SERVERS, "assign": '{"b":[1,0],"a":[2]}'}).selection == Assign(
        (("a", 2), ("b", 0), ("b", 1))
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "none was given"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "subscribe and assign were given"),
        ({"subscribe": " , "}, "names no topic"),
        ({"subscribePattern": "a("}, "no regular expression"),
        ({"subscribePattern": " "}, "is empty"),
        ({"assign": "a-0"}, "cannot be understood"),
        ({"assign": "{}"}, "cannot be understood"),
        ({"assign": '{"a":[]}'}, "cannot be understood"),
        ({"assign": '{"a":[-1]}'}, "cannot be understood"),
        ({"assign": '{"a":0}'}, "cannot be understood"),
        ({"assign": '{"a":[true]}'}, "cannot be understood"),
    ],
)
def test_what_to_read_must_be_said_once_and_well(given: dict[str, str], message: str) -> None:
    refused(message, given)


def test_where_to_start_and_end() -> None:
    assert parse(startingOffsets='{"in":{"0":23,"1":-2,"2":-1}}').starting == AtOffsets({"in": {0: 23, 1: -2, 2: -1}})
    assert parse(endingOffsets='{"in":{"0":23,"1":-1}}').ending == AtOffsets({"in": {0: 23, 1: -1}})
    assert parse(startingTimestamp="1000").starting == AtTimestamp(1000, "error")
    assert parse(startingTimestamp="1000", startingOffsetsByTimestampStrategy="latest").starting == AtTimestamp(
        1000, "latest"
    )
    assert parse(startingOffsetsByTimestamp='{"in":{"0":5}}').starting == AtTimestamp({"in": {0: 5}}, "error")
    assert parse(endingTimestamp="1000").ending == AtTimestamp(1000, "latest")
    assert parse(endingOffsetsByTimestamp='{"in":{"0":5}}').ending == AtTimestamp({"in": {0: 5}}, "latest")
    assert parse(endingOffsets="latest").ending == Latest()


def test_a_time_goes_before_offsets_and_one_time_before_many_as_in_spark() -> None:
    everything = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"in":{"0":5}}',
        "startingTimestamp": "7",
    }
    assert parse(**everything).starting == AtTimestamp(7)
    del everything["startingTimestamp"]
    assert parse(**everything).starting == AtTimestamp({"in": {0: 5}})


def test_committed_needs_somebody_whose_progress_is_meant() -> None:
    assert parse(startingOffsets="Committed", transactionalIdPrefix="p").for_stream() == Resume(
        "p", "semel-progress", None
    )
    group = {"kafka.group.id": "g"}
    assert parse(
        startingOffsets="committed", progressTopic="mine", transactionalIdPrefix="p", **group
    ).starting == Resume("p", "mine", "g")
    assert parse(startingOffsets="committed", **group).for_batch() == (Resume(None, "semel-progress", "g"), Latest())
    refused("committed needs transactionalIdPrefix", {"subscribe": "in", "startingOffsets": "committed"})
    refused("blanks around it", {"subscribe": "in", "startingOffsets": "committed", "transactionalIdPrefix": " p"})


@pytest.mark.parametrize(
    "text",
    [
        "soon",
        "[]",
        '{"in":5}',
        '{"in":{"x":5}}',
        '{"in":{"0":"5"}}',
        '{"in":{"0":-3}}',
        '{"in":{"-1":3}}',
        '{"in":{}}',
        "{}",
    ],
)
def test_malformed_offsets(text: str) -> None:
    refused(
        r"startingOffsets=.* Give it like .* or earliest, latest, committed",
        {"subscribe": "in", "startingOffsets": text},
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"endingOffsets": "earliest"}, "cannot end at the earliest"),
        ({"endingOffsets": '{"in":{"0":-2}}'}, "cannot be understood"),
        ({"startingTimestamp": "-5"}, "whole number of at least 0"),
        ({"startingTimestamp": "yesterday"}, "whole number"),
        ({"startingOffsetsByTimestamp": '{"in":{"0":-1}}'}, "cannot be understood"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "not one of error, latest"),
        ({"minPartitions": "0"}, "at least 1"),
        ({"maxRecordsPerPartition": "-4"}, "at least 1"),
        ({"maxOffsetsPerTrigger": "many"}, "whole number"),
        ({"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "9"}, "no batch could be made"),
        ({"maxTriggerDelay": "a while"}, "no length of time"),
        ({"failOnDataLoss": "no"}, "is not true or false"),
        ({"includeHeaders": "1"}, "is not true or false"),
        ({"timestampOverflow": "0"}, "not one of fail, null"),
        ({"path": "in"}, "not a known option"),
        ({"startingOffset": "latest"}, "did you mean startingOffsets"),
        ({"kafka.max.partition.fetch.byte": "1"}, "did you mean kafka.max.partition.fetch.bytes"),
        ({"kafka.auto.offset.reset": "latest"}, "startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "committed by KafkaSink"),
        ({"kafka.key.deserializer": "x"}, "cast them"),
        ({"kafka.value.deserializer": "x"}, "cast them"),
        ({"kafka.interceptor.classes": "x"}, "no JVM consumer"),
    ],
)
def test_refused(given: dict[str, str], message: str) -> None:
    refused(message, {"subscribe": "in", **given})


def test_security_that_is_not_there_is_not_passed_over() -> None:
    with pytest.raises(Unsupported, match="GSSAPI"):
        parse(**{"kafka.security.protocol": "SASL_SSL"})


@pytest.mark.parametrize(
    ("text", "ms"),
    [("15m", 900_000), ("10s", 10_000), ("500", 500), ("500ms", 500), ("2h", 7_200_000), ("1d", 86_400_000)],
)
def test_a_delay_is_written_as_in_spark(text: str, ms: int) -> None:
    assert parse(minOffsetsPerTrigger=1, maxTriggerDelay=text).limits == Limits(None, 1, ms)


def test_a_streaming_query_has_no_end() -> None:
    for given in (
        {"endingOffsets": "latest"},
        {"endingTimestamp": "5"},
        {"endingOffsetsByTimestamp": '{"in":{"0":5}}'},
    ):
        with pytest.raises(ConfigError, match="a streaming query has no end"):
            parse(**given).for_stream()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffsets": "latest"}, "cannot start at the latest"),
        ({"startingOffsets": '{"in":{"0":-1}}'}, "cannot start at the latest"),
        (
            {"startingOffsets": '{"in":{"0":5}}', "endingOffsets": '{"in":{"0":4}}'},
            "in-0 starts at offset 5 and ends before that, at 4",
        ),
        (
            {"startingOffsets": '{"in":{"0":5}}', "endingOffsets": '{"in":{"1":9}}'},
            "in-0 has its offset on one side only",
        ),
        ({"startingTimestamp": "5", "endingTimestamp": "4"}, "reading starts at timestamp 5 and ends before that"),
        (
            {"startingOffsetsByTimestamp": '{"in":{"0":5}}', "endingOffsetsByTimestamp": '{"in":{"0":4}}'},
            "in-0 starts at timestamp 5",
        ),
    ],
)
def test_a_batch_query_must_have_something_to_read(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(**given).for_batch()


def test_latest_and_earliest_are_not_compared_with_offsets() -> None:
    start, end = parse(startingOffsets='{"in":{"0":5,"1":-2}}', endingOffsets='{"in":{"0":-1,"1":3}}').for_batch()
    assert (start, end) == (AtOffsets({"in": {0: 5, 1: -2}}), AtOffsets({"in": {0: -1, 1: 3}}))


def test_what_means_nothing_here_is_named_in_one_process_only(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        **TOPIC,
        "groupIdPrefix": "g",
        "kafkaConsumer.pollTimeoutMs": "5",
        "fetchOffset.numRetries": "3",
        "kafka.receive.buffer.bytes": "9",
    }
    with caplog.at_level(logging.WARNING, "semel"):
        SourceOptions.parse(given)
        assert caplog.messages == []
        SourceOptions.parse(given, warn=True)
    assert any(
        "fetchOffset.numRetries, groupIdPrefix, kafkaConsumer.pollTimeoutMs" in message for message in caplog.messages
    )
    assert any("receive.buffer.bytes" in message for message in caplog.messages)


def test_limits_of_triggers_are_named_in_a_batch_query(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "semel"):
        parse(maxOffsetsPerTrigger=5).for_batch()
    assert "maxOffsetsPerTrigger" in caplog.text


def test_a_task_fetches_more_at_once_than_a_consumer_of_many_partitions() -> None:
    assert parse().config.max_partition_fetch_bytes == 4 << 20
    assert parse(**{"kafka.max.partition.fetch.bytes": 1_000}).config.max_partition_fetch_bytes == 1_000


def test_options_travel_to_executors() -> None:
    options = parse(startingOffsets='{"in":{"0":5}}', minPartitions=3)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize("option", ["minPartitions", "maxRecordsPerPartition"])
def test_order_that_is_given_up_is_said(option: str, caplog: pytest.LogCaptureFixture) -> None:
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}
    with caplog.at_level(logging.WARNING, "semel"):
        SourceOptions.parse(given, warn=True)
        assert caplog.text == ""
        SourceOptions.parse({**given, option: "9"}, warn=True)
    assert (
        f"with {option} several tasks may read one source partition: the order of its rows is not guaranteed"
        in caplog.text
    )


@pytest.mark.parametrize(
    "given",
    [
        {"assign": '{"in":[{}]}'},
        {"assign": '{"in":[[0]]}'},
        {"assign": "[" * 100_000},
        {"subscribe": "in", "startingOffsets": '{"a":' * 100_000},
        {"subscribe": "in", "startingOffsets": '{"in":{"0":1e999}}'},
        {"subscribe": "in", "maxTriggerDelay": "9" * 400 + "d"},
        {"subscribe": "in", "maxTriggerDelay": "9" * 5000},
        {"subscribe": "in", "minPartitions": "9" * 5000},
        {"subscribePattern": "(" * 5000 + ")" * 5000},
        {"subscribePattern": "a{99999999999999999999}"},
        {"subscribePattern": "a{" + "9" * 5005 + "}"},
        {"subscribePattern": "a" * 500_000},
    ],
    ids=lambda given: str(given)[:40],
)
def test_values_that_break_a_reader_are_refused(given: dict[str, str]) -> None:
    """Found by the fuzzers: errors of Python's own, and patterns that take seconds."""
    with pytest.raises(ConfigError):
        SourceOptions.parse({"kafka.bootstrap.servers": "localhost:9092", **given})


@pytest.mark.parametrize("pattern", ["x[a-z&&[am]]", "x[a-c[x-z]]", "x[^a[b]]", "[a&&b]", r"(?:\[[a[b]])"])
def test_classes_that_only_java_reads_so_are_refused(pattern: str) -> None:
    """Spark's own source matches topics by them, and Python's would match none, without a word."""
    with pytest.raises(ConfigError, match=r"WRONG_VALUE.*Java.*Nothing was read"):
        SourceOptions.parse({**SERVERS, "subscribePattern": pattern})


@pytest.mark.parametrize("pattern", ["x[a-z]", r"x[a\[b]", "a&&b", r"[\]a]b[c]", "[]a]", "[^]a]", r"team\..*", "[&]"])
def test_classes_that_both_read_alike_are_taken(pattern: str) -> None:
    assert SourceOptions.parse({**SERVERS, "subscribePattern": pattern}).selection == SubscribePattern(pattern)
