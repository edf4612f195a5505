from __future__ import annotations

import pytest

from semel.errors import ConfigError
from semel.spark import KafkaSink
from semel.spark.sink.options import SinkOptions
from semel.spark.source.options import SourceOptions

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.5", "many", "\u00b2", "1\u00b2", "0x10", "1_000"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    """A superscript two is a digit to Python's isdigit, and none to int()."""
    with pytest.raises(ConfigError, match="is not a whole number of at least 0"):
        SinkOptions.parse({**SERVERS, "topic": "out", "transactionalIdPrefix": "p", "maxBatchRetries": text})
    with pytest.raises(ConfigError, match=r"minPartitions=.* is not a whole number of at least 1"):
        SourceOptions.parse({**SERVERS, "subscribe": "in", "minPartitions": text})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxBatchRetries", "9" * 5000),
        ("kafka.bootstrap.servers", "localhost:" + "9" * 5000),
        ("transactionalIdPrefix", "half\ud800"),
        ("x" * 300_000, "1"),
    ],
    ids=lambda text: text[:20],
)
def test_values_beyond_all_measure_are_refused_at_once(name: str, value: str) -> None:
    """Found by the fuzzers: errors of Python's own, and a look for the nearest name that takes the square of its
    length.
    """
    given = {"kafka.bootstrap.servers": "localhost:9092", "topic": "out", "transactionalIdPrefix": "p", name: value}
    with pytest.raises(ConfigError) as raised:
        SinkOptions.parse(given)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    ("given", "tag"),
    [
        ({"topic": "semel-progress"}, "PROGRESS_TOPIC"),
        ({"topics": "out, semel-progress"}, "PROGRESS_TOPIC"),
        ({"topic": "kept", "progressTopic": "kept"}, "PROGRESS_TOPIC"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_query_that_would_stand_in_its_own_way_is_refused(given: dict[str, str], tag: str) -> None:
    with pytest.raises(ConfigError) as raised:
        SinkOptions.parse({**SERVERS, "transactionalIdPrefix": "p", **given})
    assert raised.value.tag == tag


def test_an_option_that_is_none_is_left_out() -> None:
    """As in PySpark, which drops it: a group of that name would be the text "None"."""
    plain = {"topic": "out", "transactionalIdPrefix": "p", "kafka.bootstrap.servers": "a:1"}
    found = SinkOptions.parse({**plain, "kafka.group.id": None, "kafka.client.id": None, "partitioner": None})
    assert found == SinkOptions.parse(plain)
    assert found.group is None


def test_a_sink_without_names_for_its_options_is_refused() -> None:
    """Also the class in the place of a sink: foreachBatch(KafkaSink) calls it with a DataFrame and a number."""
    for values in (("topic", "prefix"), (object(), 0)):
        with pytest.raises(ConfigError, match=r"UNNAMED_OPTIONS.*Nothing was written.*foreachBatch\(sink\)"):
            KafkaSink(*values)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("max.request.size", "max.request.size is not a known option; did you mean kafka.max.request.size?"),
        ("max_request_size", "did you mean kafka.max.request.size?"),
        ("security.protocol", "did you mean kafka.security.protocol?"),
        ("linger.ms", "did you mean kafka.linger.ms?"),
        ("compresion.type", "did you mean kafka.compression.type?"),
        (
            "kafka.max.request.sise",
            "kafka.max.request.sise is not a known property; did you mean kafka.max.request.size?",
        ),
        ("kafka.transactional.id", "kafka.transactional.id is given by semel, one for each owner."),
        ("group.id", "did you mean kafka.group.id?"),
    ],
)
def test_names_of_kafka_without_their_prefix_or_misspelt(name: str, said: str) -> None:
    for parse, given in ((SinkOptions.parse, {"topic": "out", "transactionalIdPrefix": "p"}), (_source, {})):
        with pytest.raises(ConfigError) as refused:
            parse({**SERVERS, **given, name: "1"})
        assert refused.value.tag == "UNKNOWN_OPTION"
        assert said in refused.value.message


@pytest.mark.parametrize("option", ["kafka.request.timeout.ms", "kafka.fetch.min.bytes", "kafka.isolation.level"])
def test_a_wrong_value_of_kafkas_is_named_as_it_is_written(option: str) -> None:
    with pytest.raises(ConfigError, match=rf"WRONG_VALUE. {option}=soon "):
        _source({**SERVERS, option: "soon"})


@pytest.mark.parametrize(
    "name", ["kafka.bootstrap.server", "kafka_bootstrap_servers", "bootstrap.servers", "bootstrap.server"]
)
def test_other_spellings_of_the_servers(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' was given: did you mean kafka.bootstrap.servers"):
        _source({name: "localhost:9092"})


def _source(given: dict[str, str]) -> SourceOptions:
    return SourceOptions.parse({**given, "subscribe": "in"})
