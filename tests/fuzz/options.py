"""Options of the sink and the source for the fuzzer: whole ones, and pieces that spoil them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random

from semel.errors import SemelError
from semel.spark.sink.options import SinkOptions
from semel.spark.source.options import SourceOptions
from tests.fuzz.mutate import spoilt_json, spoilt_text

# ---- options

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="a;\\"b";'
KAFKA = {"kafka.bootstrap.servers": "localhost:9092"}
SINKS: Sequence[dict[str, object]] = (
    {**KAFKA, "topic": "out", "transactionalIdPrefix": "orders"},
    {
        **KAFKA,
        "topics": "a,b",
        "transactionalIdPrefix": "p",
        "maxBatchRetries": "3",
        "partitioner": "any",
        "onProgressMismatch": "checkpoint:0123456789abcdef",
    },
    {
        **KAFKA,
        "delivery": "at_least_once",
        "kafka.compression.type": "zstd",
        "kafka.transaction.timeout.ms": "60000",
    },
    {
        **KAFKA,
        "topic": "o",
        "transactionalIdPrefix": "s",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": JAAS,
    },
)
SOURCES: Sequence[dict[str, object]] = (
    {
        **KAFKA,
        "subscribe": "in,other",
        "startingOffsets": '{"in":{"0":23,"1":-1},"other":{"0":-2}}',
        "minPartitions": "7",
    },
    {
        **KAFKA,
        "subscribePattern": "in-[0-9]+",
        "startingOffsets": "committed",
        "kafka.group.id": "g",
        "maxOffsetsPerTrigger": "1000",
    },
    {
        **KAFKA,
        "assign": '{"in":[0,1],"other":[2]}',
        "endingOffsets": '{"in":{"0":50}}',
        "includeHeaders": "true",
        "failOnDataLoss": "false",
    },
    {
        **KAFKA,
        "subscribe": "in",
        "startingOffsetsByTimestamp": '{"in":{"0":1700000000000}}',
        "startingOffsetsByTimestampStrategy": "latest",
    },
    {
        **KAFKA,
        "subscribe": "in",
        "startingTimestamp": "1700000000000",
        "endingTimestamp": "1800000000000",
        "maxTriggerDelay": "15m",
        "minOffsetsPerTrigger": "10",
    },
)
DOCUMENTS = {str(value) for given in SOURCES for value in given.values() if str(value).startswith("{")}
PIECES = (
    *"{}[]\",:=;\\/.+*?()|^$ \t\n\0'",
    "9" * 5000,
    "-1",
    "1_0",
    "٣",
    "²",
    "1e9",
    "ms",
    "(a+)+",
    "[0-9]{1,99999}",
    "localhost:",
    ":0",
    ":99999",
    "é",
    "\ud800",
    "true",
    "null",
    "{}",
    "[]",
)


def spoilt_options(random: Random, given: Sequence[Mapping[str, object]]) -> bytes:
    """Options with values and names that are spoilt, put together from several sets."""
    options = dict(random.choice(given))
    if random.random() < 0.3:
        options.update(random.sample(sorted(random.choice(given).items()), 1))
    for _ in range(random.randint(1, 3)):
        name = random.choice(list(options))
        value = str(options[name])
        if value in DOCUMENTS and random.random() < 0.6:
            options[name] = spoilt_json(random, [value.encode()]).decode("utf-8", "replace")
        elif random.random() < 0.1:
            options[spoilt_text(random, [name], PIECES)] = options.pop(name)
        elif random.random() < 0.1:
            options[random.choice((name.upper(), name))] = random.choice((None, True, 7, 0.5, "", " "))
        else:
            options[name] = spoilt_text(random, [value], PIECES)
    return json.dumps(options).encode()


def read_sink(data: bytes) -> None:
    options = SinkOptions.parse(json.loads(data))
    repr(options)


def read_source(data: bytes) -> None:
    options = SourceOptions.parse(json.loads(data))
    with suppress(SemelError):
        options.for_stream()
    with suppress(SemelError):
        options.for_batch()
    pickle.loads(pickle.dumps(options))
