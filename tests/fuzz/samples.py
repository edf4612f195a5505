"""Valid inputs, made by those who write them: record batches by our encoder, answers of brokers by kafka-python's."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any
from uuid import UUID

import crc32c
import pyarrow as pa
from kafka.protocol import admin, consumer, metadata, producer, sasl

from semel.records import Codec, encode
from semel.records.header import HEADER_SIZE
from semel.wire.responses import response_type
from tests.fuzz.mutate import spoilt_bytes

__all__ = ["ANSWERS", "Answer", "answers", "batches", "fitting", "spoilt_batches"]

#: What is asked of brokers, with the versions that are spoken.
ANSWERS: tuple[tuple[Any, int], ...] = (
    (metadata.ApiVersionsRequest, 0),
    (metadata.ApiVersionsRequest, 4),
    (metadata.MetadataRequest, 12),
    (metadata.MetadataRequest, 13),
    (metadata.FindCoordinatorRequest, 6),
    (producer.ProduceRequest, 12),
    (producer.ProduceRequest, 13),
    (producer.InitProducerIdRequest, 5),
    (producer.AddPartitionsToTxnRequest, 3),
    (producer.TxnOffsetCommitRequest, 5),
    (producer.EndTxnRequest, 5),
    (consumer.FetchRequest, 13),
    (consumer.FetchRequest, 17),
    (consumer.ListOffsetsRequest, 7),
    (consumer.OffsetFetchRequest, 8),
    (consumer.OffsetFetchRequest, 9),
    (consumer.OffsetForLeaderEpochRequest, 4),
    (admin.CreateTopicsRequest, 7),
    (admin.DescribeConfigsRequest, 4),
    (admin.DescribeGroupsRequest, 5),
    (admin.ListGroupsRequest, 4),
    (admin.DescribeProducersRequest, 0),
    (admin.DescribeTransactionsRequest, 0),
    (admin.ListTransactionsRequest, 0),
    (sasl.SaslHandshakeRequest, 1),
    (sasl.SaslAuthenticateRequest, 2),
)

Answer = tuple[int, bytes]


@cache
def batches() -> Sequence[bytes]:
    """Record batches, alone and in a row, of all codecs; markers."""
    table = pa.table(
        {
            "key": pa.array([None if i % 3 else b"key %d" % i for i in range(12)], pa.binary()),
            "value": pa.array([None if i % 5 == 4 else b"value" * (i % 4) for i in range(12)], pa.binary()),
            "timestamp": pa.array([1_700_000_000_000 + i * 7 for i in range(12)], pa.int64()),
            "headers": pa.array(
                [[("trace", b"x"), ("none", None)][: i % 3] for i in range(12)],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )
    made: list[bytes] = []
    for codec in Codec:
        for rows in (table, table.drop_columns(["headers", "key"]), table.slice(0, 1)):
            chunks = [bytes(chunk) for batch in encode(rows, codec=codec) for chunk in batch.chunks]
            made.append(b"".join(chunks))
    made.append(made[0] + made[4] + made[1][:-7])
    control = bytearray(made[2])
    record = b"\0\0\0" + b"\x08" + struct.pack(">hh", 0, 1) + b"\x0c" + struct.pack(">hi", 0, 5) + b"\0"
    control[21:23] = struct.pack(">h", 0x30)
    made.append(fitting(bytes(control[:HEADER_SIZE]) + bytes([len(record) * 2]) + record))
    return made


def fitting(data: bytes) -> bytes:
    """The bytes as one batch whose length and checksum fit them: only so are the readers behind the first checks
    met.
    """
    if len(data) < HEADER_SIZE:
        return data
    size = struct.pack(">i", len(data) - 12)
    return data[:8] + size + data[12:17] + struct.pack(">I", crc32c.crc32c(data[21:])) + data[21:]


@cache
def answers(index: int) -> Sequence[bytes]:
    """Frames that answer ``ANSWERS[index]`` with correlation id 1: the correlation id, the tags of a flexible header,
    the body.
    """
    request_type, version = ANSWERS[index]
    kind = response_type(request_type)
    header = b"\0\0\0\1" + (
        b"\0" if request_type is not metadata.ApiVersionsRequest and kind.flexible_version_q(version) else b""
    )
    made = [
        header + bytes(_filled(kind._struct, kind, version, Random(number)).encode(version=version))
        for number in range(6)
    ]
    return [*made, header]


def _filled(struct_field: Any, make: Any, version: int, random: Random) -> Any:
    values = {
        field.name: _value(field, make, version, random)
        for field in struct_field._fields
        if field.for_version_q(version)
    }
    return make(**values)


def _value(field: Any, owner: Any, version: int, random: Random) -> Any:
    if field.nullable_for_version_q(version) and random.random() < 0.2:
        return None
    if field.is_struct_array():
        kind = getattr(owner, field.type_str)
        return [_filled(field, kind, version, random) for _ in range(random.choice((0, 1, 1, 2, 5)))]
    if field.is_struct():
        return _filled(field, getattr(owner, field.type_str), version, random)
    if field.is_array():
        return [_simple(field.array_of, random) for _ in range(random.choice((0, 1, 3)))]
    return _simple(field, random)


def _simple(field: Any, random: Random) -> Any:
    match field._type_str:
        case "string":
            return random.choice(("in", "out-7", "ä" * 60, ""))
        case "uuid":
            return UUID(int=random.getrandbits(128) | 1)
        case "bool":
            return random.random() < 0.5
        case "bytes" | "records":
            return random.choice(batches())
        case "int8":
            return random.choice((0, 1, -1))
        case "float64":
            return 0.5
        case "bitfield":
            return {1, 3}
    return random.choice((0, 0, 1, 3, 42, -1))


def spoilt_batches(random: Random) -> bytes:
    """Batches with changes; mostly with lengths and checksums that fit."""
    data = spoilt_bytes(random, batches())
    if random.random() < 0.6:
        data = fitting(data)
    if random.random() < 0.2:
        data += random.choice(batches())
    return data
