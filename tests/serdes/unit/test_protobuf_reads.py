"""Messages of Protobuf: what a writer wrote reads as it was, and files that people write by hand."""

from __future__ import annotations

import base64
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, message_factory, timestamp_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.serdes.json_value import json_text
from semel.serdes.protobuf.compiled import messages_of
from semel.serdes.protobuf.reader import ProtobufReader
from semel.serdes.protobuf.schema import TAG, ProtobufOptions
from semel.serdes.protobuf.writer import ProtobufWriter
from semel.serdes.registry.framing import written_path
from semel.serdes.schemas.schema import Schema, Type
from semel.serdes.schemas.struct import Struct, checked
from semel.serdes.unfit import Unfit
from tests.serdes.unit.test_json_schema_reads import cases

ITEM = Schema.struct({"name": Schema.string(), "count": Schema.int32(optional=True)}, name="shop.Item")
ORDER = Schema.struct(
    {
        "id": Schema.int64(),
        "small": Schema.int8(),
        "middle": Schema.int16(optional=True),
        "price": Schema.decimal(2),
        "none": Schema.decimal(2, optional=True),
        "note": Schema.string(optional=True),
        "tags": Schema.array(Schema.string()),
        "ratio": Schema.float32(),
        "exact": Schema.float64(optional=True),
        "paid": Schema.boolean(),
        "raw": Schema.bytes(),
        "at": Schema.timestamp(),
        "day": Schema.date(),
        "hour": Schema.time(),
        "first": ITEM,
        "items": Schema.array(ITEM),
        "stock": Schema.map(Schema.string(), Schema.int64()),
        "named": Schema.map(Schema.int32(), ITEM),
        "priced": Schema.map(Schema.float64(), Schema.string()),
    },
    name="shop.Order",
)
ROW: dict[str, Any] = {
    "id": 2**53 + 1,
    "small": -128,
    "middle": None,
    "price": Decimal("-1.50"),
    "none": None,
    "note": "é",
    "tags": ["a", ""],
    "ratio": 0.5,
    "exact": None,
    "paid": True,
    "raw": b"\x00\xff",
    "at": datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
    "day": date(1969, 12, 31),
    "hour": time(1, 2, 3, 4000),
    "first": {"name": "nail", "count": 0},
    "items": [{"name": "bolt", "count": 5}],
    "stock": {"nails": 5},
    "named": {1: {"name": "one", "count": 2}},
    "priced": {1.5: "x"},
}


def types(schema: Schema) -> Any:
    """The types of a schema, and of its parts: what becomes of it in columns."""
    parts = [(one.name, types(one.schema)) for one in schema.fields]
    inner = [types(one) for one in (schema.keys, schema.values) if one is not None]
    return schema.logical or str(schema.type), (schema.parameters or {}).get("scale"), parts, inner


def plain(value: Any, *, kept: bool) -> Any:
    """A value by names. Without ``kept`` a null is what Protobuf has for it."""
    if isinstance(value, Struct):
        cells = zip(value.schema.fields, value.cells, strict=True)
        return {one.name: plain(_there(one.schema, cell, kept=kept), kept=kept) for one, cell in cells}
    if isinstance(value, list):
        return [plain(one, kept=kept) for one in value]
    return {key: plain(one, kept=kept) for key, one in value.items()} if isinstance(value, dict) else value


def _there(schema: Schema, cell: Any, *, kept: bool) -> Any:
    if cell is None:
        cell = schema.default
    if cell is not None or (kept and schema.type not in (Type.ARRAY, Type.MAP)) or schema.logical is not None:
        return cell
    empty = {Type.STRING: "", Type.BYTES: b"", Type.BOOLEAN: False, Type.ARRAY: [], Type.MAP: {}, Type.STRUCT: None}
    empty |= dict.fromkeys((Type.FLOAT32, Type.FLOAT64), 0.0)
    return empty.get(schema.type, 0)


def check(schema: Schema, value: Any, options: ProtobufOptions) -> None:
    writer = ProtobufWriter(schema, options)
    data = writer.value(value)
    assert data is not None
    found, read = ProtobufReader(writer.text, {}, options).read(data)
    assert types(found) == types(schema)
    kept = options.optional or options.wrapped
    assert json_text(plain(read, kept=True)) == json_text(plain(value, kept=kept))


@pytest.mark.parametrize("options", [{}, {"optional": True}, {"wrapped": True}])
def test_what_was_written_reads_as_it_was(options: dict[str, bool]) -> None:
    made = ORDER
    if options.get("wrapped"):  # Confluent reads a wrapped number as one of 32 bits
        parts = {one.name: one.schema for one in ORDER.fields} | {"middle": Schema.int32(optional=True)}
        made = Schema.struct(parts, name=ORDER.name)
    check(made, checked(made, ROW), ProtobufOptions(**options))


@pytest.mark.exhaustive
@pytest.mark.parametrize("options", [{}, {"optional": True}])
def test_the_corpus_reads_as_it_was(options: dict[str, bool]) -> None:
    count = 0
    for schema, value in cases():
        if schema.type is not Type.STRUCT or value is None:
            continue
        check(schema, value, ProtobufOptions(scrub_names=True, **options))
        count += 1
    assert count > 50


WRITTEN = ProtobufWriter(ORDER, ProtobufOptions())
READER = ProtobufReader(WRITTEN.text, {}, ProtobufOptions())
SHOP = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "confluent/type/decimal.proto";
import "shop/item.proto";
enum Colour { RED = 0; BLUE = 5; }
message Other { int32 a = 1; message Inner { string b = 1; } }
message Order {
  uint32 id = 1;
  uint64 large = 2;
  optional string note = 3;
  Colour colour = 4;
  oneof paid { int32 cents = 5; string card = 6; }
  google.protobuf.Timestamp at = 7;
  google.protobuf.StringValue word = 8;
  shop.Item item = 9;
  repeated sint32 numbers = 10;
  confluent.type.Decimal price = 11;
  bool last = 12;
}
"""
ITEM_TEXT = 'syntax = "proto3"; package shop; message Item { fixed64 n = 1; }'
NAMED = {"shop/item.proto": ITEM_TEXT}


@pytest.fixture(scope="module")
def messages() -> list[Any]:
    return [message_factory.GetMessageClass(one) for one in messages_of(SHOP, NAMED)]


def test_a_file_of_a_person(messages: list[Any]) -> None:
    order = messages[1](id=2**32 - 1, large=7, colour=5, card="x", numbers=[-1, 2], item={"n": 3})
    order.at.MergeFromString(timestamp_pb2.Timestamp(seconds=1, nanos=2_500_000).SerializeToString())
    order.word.value = "w"
    order.price.value = b"\x05"
    reader = ProtobufReader(SHOP, NAMED, ProtobufOptions())
    schema, value = reader.read(written_path((1,)) + order.SerializeToString())
    assert schema.name == "Order"
    assert [one.name for one in schema.fields] == [
        *("paid_0", "id", "large", "note", "colour", "at", "word", "item", "numbers", "price", "last"),
    ]
    assert all(one.schema.optional for one in schema.fields)
    assert schema.fields[1].schema.parameters == {"io.confluent.connect.protobuf.Type": "uint32", TAG: "1"}
    assert plain(value, kept=True) == {
        "paid_0": {"cents": None, "card": "x"},
        "id": 2**32 - 1,
        "large": 7,
        "note": None,
        "colour": "BLUE",
        "at": datetime(1970, 1, 1, 0, 0, 1, 2000, tzinfo=UTC),
        "word": {"value": "w"},
        "item": {"n": 3},
        "numbers": [-1, 2],
        "price": Decimal(5),
        "last": False,
    }
    wrapped = ProtobufReader(SHOP, NAMED, ProtobufOptions(wrapped=True))
    assert wrapped.read(written_path((1,)) + order.SerializeToString())[1]["word"] == "w"
    schema, value = reader.read(written_path((0, 0)) + b"\n\1b")
    assert (schema.name, value["b"]) == ("Inner", "b")


def test_what_is_refused(messages: list[Any]) -> None:
    reader = ProtobufReader(SHOP, NAMED, ProtobufOptions())
    with pytest.raises(Unfit, match="does not fit into int64"):
        reader.read(written_path((1,)) + messages[1](large=2**64 - 1).SerializeToString())
    with pytest.raises(Unfit, match="has no such message"):
        reader.read(written_path((7,)))
    with pytest.raises(Unfit, match="no message of their schema"):
        reader.read(written_path((1,)) + b"\xff")
    price = {"value": b"\x05", "scale": 1, "precision": 1}
    with pytest.raises(Unfit, match="more than 0 digits"):
        reader.read(written_path((1,)) + messages[1](price=price).SerializeToString())
    itself = 'syntax = "proto3"; message Row { Row next = 1; }'
    with pytest.raises(Unfit, match="refers to itself by Row"):
        ProtobufReader(itself, {}, ProtobufOptions()).read(b"\0")
    with pytest.raises(Unfit, match="cannot be read"):
        ProtobufReader("message {", {}, ProtobufOptions())
    with pytest.raises(Unfit, match="cannot be read"):
        ProtobufReader('syntax = "proto3"; import "/etc/passwd";', {}, ProtobufOptions())
    with pytest.raises(Unfit, match="no name of a file below others"):
        ProtobufReader("", {"../../x.proto": ITEM_TEXT}, ProtobufOptions())


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_bytes_of_any_kind_are_refused_or_read(data: st.DataObject) -> None:
    """Whole bytes, and those of a value with one of them changed."""
    written = WRITTEN.value(checked(ORDER, ROW))
    assert written is not None
    place = data.draw(st.integers(1, len(written) - 1))
    other = written[:place] + bytes([data.draw(st.integers(0, 255))]) + written[place + 1 :]
    for one in (data.draw(st.binary(max_size=60)), other, written[:place]):
        with suppress(Unfit):
            schema, value = READER.read(one)
            assert checked(schema, value) is value


def test_a_file_in_base64(messages: list[Any]) -> None:
    """Confluent's serializer for Python registers descriptions."""
    file = descriptor_pb2.FileDescriptorProto.FromString(messages[0].DESCRIPTOR.file.serialized_pb)
    item = descriptor_pb2.FileDescriptorProto.FromString(
        messages[1].DESCRIPTOR.fields_by_name["item"].message_type.file.serialized_pb
    )
    text, named = (base64.b64encode(one.SerializeToString()).decode() for one in (file, item))
    for other in (named, ITEM_TEXT):
        reader = ProtobufReader(text, {"shop/item.proto": other}, ProtobufOptions())
        assert reader.read(written_path((0,)) + messages[0](a=5).SerializeToString())[1]["a"] == 5
