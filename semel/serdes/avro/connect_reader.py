"""Values of Avro as Kafka Connect has them, as Confluent's ``AvroData`` makes them.

A schema of Avro becomes one of Kafka Connect: a choice of null and a type is an optional one, logical types are those
of Kafka Connect, and properties such as ``connect.type`` say what Avro has no word for. Other choices are not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from semel.serdes.avro.names import NAMESPACE
from semel.serdes.avro.reader import LOGICAL, AvroReader, parsed_types
from semel.serdes.avro.schema import ENUM, FIXED_SIZE
from semel.serdes.schemas.json_form import decimal_of, parse_value
from semel.serdes.schemas.schema import DATE, TIME, TIMESTAMP, Field, Schema, Type
from semel.serdes.schemas.struct import Struct
from semel.serdes.unfit import Unfit

__all__ = ["ConnectReader"]

Read = Callable[[Any], Any]
_ANYTHING, _ENTRY = f"{NAMESPACE}.Anything", f"{NAMESPACE}.MapEntry"
#: A struct without a name gets one in Avro.
_NO_NAME = re.compile(rf"({re.escape(NAMESPACE)}\.ConnectDefault\d*)?")
_PRECISION, _DIGITS = "connect.decimal.precision", 64
_PLAIN = {
    "boolean": Type.BOOLEAN,
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "string": Type.STRING,
    "bytes": Type.BYTES,
    "fixed": Type.BYTES,
    "enum": Type.STRING,
}
_LOGICAL = {("int", "date"): DATE, ("int", "time-millis"): TIME, ("long", "timestamp-millis"): TIMESTAMP}
_NO_DEFAULT: Any = object()


class ConnectReader:
    """Reads values that one schema of Avro wrote. ``schema`` is Kafka Connect's, or None if each value is of its own.

    ``named`` are the schemas that it refers to. Raises :class:`Unfit` for a schema that Kafka Connect cannot say.
    """

    def __init__(self, text: str, named: tuple[str, ...] = ()) -> None:
        self._reader = AvroReader(text, named, logical=False)
        root, types = parsed_types(text, named)
        self.schema: Schema | None = None
        self._of: Read = _loose
        if _full_name(root) != _ANYTHING:
            self.schema, self._of = _Builder(types).build(root)

    def read(self, data: bytes) -> tuple[Schema | None, Any]:
        """Return the schema, and a value as :meth:`value` does."""
        return self.schema, self.value(data)

    def value(self, data: bytes) -> Any:
        """Return a value, checked by the schema. Raise :class:`Unfit` for bytes that the schema did not write."""
        datum = self._reader.value(data)
        if datum is None:
            return None
        try:
            return self._of(datum)
        except (OverflowError, ValueError) as error:
            raise Unfit(f"a value of its schema of Avro cannot be read ({error!s:.200})") from None


class _Builder:
    """One schema on its way: for each node Kafka Connect's schema, and what makes a value of fastavro's."""

    def __init__(self, types: Mapping[str, Any]) -> None:
        self._types = types
        self._open: list[str] = []

    def build(self, node: Any, *, optional: bool = False, default: Any = _NO_DEFAULT) -> tuple[Schema, Read]:
        """Return the schema of a node. ``default`` is that of its field."""
        if isinstance(node, list):
            return self._choice(node)
        if isinstance(node, str):
            node = self._types.get(node) or {"type": node}
        kind, name = node["type"], _full_name(node)
        if name in self._open:
            raise Unfit(f"its schema refers to itself by {name:.60}, which is not read here")
        self._open += [name] if name else []
        made, read = self._typed(node, kind)
        del self._open[len(self._open) - bool(name) :]
        own = node.get("connect.default")
        made = _described(made, node, optional=optional, of_field=default is not _NO_DEFAULT and own is None)
        if default is _NO_DEFAULT:
            default = own
        if default is not None and not (kind == "array" and made.type is Type.MAP):  # as Confluent reads it
            made = made.but(default=read(_datum(made, default)))
        return made, read

    def _choice(self, branches: list[Any]) -> tuple[Schema, Read]:
        others = [one for one in branches if one != "null"]
        if len(others) != 1 or len(branches) != 2:
            raise Unfit("its schema has a choice of several types, which is not read here")
        return self.build(others[0], optional=True)

    def _typed(self, node: Mapping[str, Any], kind: str) -> tuple[Schema, Read]:
        match kind:
            case "record":
                return self._record(node)
            case "array" if _is_entry(node["items"], self._types):
                return self._entries(node["items"])
            case "array":
                values, read = self.build(node["items"])
                return Schema.array(values), lambda items: [None if one is None else read(one) for one in items]
            case "map":
                values, read = self.build(node["values"])
                return Schema.map(Schema.string(), values), lambda pairs: {
                    key: None if one is None else read(one) for key, one in pairs.items()
                }
        return _single(node, kind)

    def _record(self, node: Mapping[str, Any]) -> tuple[Schema, Read]:
        fields, reads = [], []
        for one in node["fields"]:
            default = one.get("default", _NO_DEFAULT)
            made, read = self.build(one["type"], default=_NO_DEFAULT if default is None else default)
            fields.append(Field(one["name"], made))
            reads.append((one["name"], read))
        schema = Schema(Type.STRUCT, fields=tuple(fields))

        def struct(datum: Mapping[str, Any], schema: Schema) -> Struct:
            cells = tuple(None if datum[name] is None else read(datum[name]) for name, read in reads)
            return Struct.of_cells(schema, cells)

        return schema, lambda datum: struct(datum, schema)

    def _entries(self, node: Any) -> tuple[Schema, Read]:
        """Return a map whose keys are no texts: Avro has a list of entries for it."""
        entry = self._types[node] if isinstance(node, str) else node
        kinds = {one["name"]: one["type"] for one in entry["fields"]}
        (keys, key), (values, value) = self.build(kinds["key"]), self.build(kinds["value"])

        def read(entries: list[Mapping[str, Any]]) -> dict[Any, Any]:
            return {
                None if one["key"] is None else key(one["key"]): None if one["value"] is None else value(one["value"])
                for one in entries
            }

        return Schema.map(keys, values), read


def _described(made: Schema, node: Mapping[str, Any], *, optional: bool, of_field: bool) -> Schema:
    """Return the schema with its name, version, documentation and parameters, and whether its field has a default."""
    parameters = {**(made.parameters or {}), **_parameters(node), **(node.get("connect.parameters") or {})}
    parameters |= {key: str(one) for key, one in node.items() if key.startswith("avro")}
    if of_field:
        parameters[f"{NAMESPACE}.field.default"] = "true"
    name = made.name or node.get("connect.name") or _full_name(node)
    return made.but(
        optional=optional,
        name=None if _NO_NAME.fullmatch(name) else name,
        version=node.get("connect.version", made.version),
        doc=node.get("connect.doc"),
        parameters=parameters or None,
    )


def _single(node: Mapping[str, Any], kind: str) -> tuple[Schema, Read]:
    """Return the schema of a type without parts."""
    logical = node.get(LOGICAL)
    if kind in ("bytes", "fixed") and logical == "decimal":
        scale, precision = int(node.get("scale", 0)), int(node.get("precision", _DIGITS))
        made = Schema.decimal(scale, parameters={} if precision == _DIGITS else {_PRECISION: str(precision)})
        return made, lambda datum: decimal_of(int.from_bytes(datum, signed=True), scale)
    name = _LOGICAL.get((kind, str(logical)))
    if name is not None:
        made = Schema(_PLAIN[kind], name=name, version=1)
        return made, lambda datum: parse_value(made, datum)
    if kind not in _PLAIN:
        raise Unfit(f"its schema has the type {kind!s:.60}, which Kafka Connect does not have")
    narrow = {"int8": Type.INT8, "int16": Type.INT16} if kind == "int" else {}
    return Schema(narrow.get(node.get("connect.type", ""), _PLAIN[kind])), lambda datum: datum


def _parameters(node: Mapping[str, Any]) -> dict[str, str]:
    """Return what the parameters of Kafka Connect's schema say of a named type of Avro."""
    match node["type"]:
        case "record":
            docs = {f"{NAMESPACE}.field.doc.{one['name']}": one["doc"] for one in node["fields"] if one.get("doc")}
            return {**docs, **({f"{NAMESPACE}.record.doc": node["doc"]} if "doc" in node else {})}
        case "fixed":
            return {FIXED_SIZE: str(node["size"])}
        case "enum":
            said = {ENUM: str(node["name"]), **{f"{ENUM}.{one}": one for one in node["symbols"]}}
            last = node["name"].rpartition(".")[2]
            said |= {f"{NAMESPACE}.enum.doc.{last}": node["doc"]} if "doc" in node else {}
            return said | ({f"{NAMESPACE}.enum.default.{last}": node["default"]} if "default" in node else {})
    return {}


def _full_name(node: Any) -> str:
    return str(node.get("name", "")) if isinstance(node, dict) else ""


def _is_entry(items: Any, types: Mapping[str, Any]) -> bool:
    node: Any = types.get(items) if isinstance(items, str) else items
    if not isinstance(node, dict) or node["type"] != "record":
        return False
    if [one["name"] for one in node["fields"]] != ["key", "value"]:
        return False
    return _full_name(node) == _ENTRY or node.get("connect.internal.type") == "MapEntry"


def _datum(schema: Schema, default: Any) -> Any:
    """Return a default of JSON as fastavro gives a value."""
    match schema.type:
        case Type.BYTES:
            return default.encode("latin-1")
        case Type.FLOAT32 | Type.FLOAT64:
            return float(default)
        case Type.ARRAY if schema.values is not None:
            return [_datum(schema.values, one) for one in default]
        case Type.MAP if schema.keys is not None and schema.values is not None:
            if isinstance(default, Mapping):
                return {key: _datum(schema.values, one) for key, one in default.items()}
            pairs = (one if isinstance(one, list) else (one["key"], one["value"]) for one in default)
            return [{"key": _datum(schema.keys, key), "value": _datum(schema.values, one)} for key, one in pairs]
        case Type.STRUCT:
            return {
                one.name: None if default.get(one.name) is None else _datum(one.schema, default[one.name])
                for one in schema.fields
            }
    return default


def _loose(datum: Mapping[str, Any]) -> Any:
    """Return a value that was written without a schema."""
    held = [(name, one) for name, one in datum.items() if one is not None]
    if not held:
        return None
    name, value = held[0]
    if name == "array":
        return [_loose(one) for one in value]
    return {_loose(one["key"]): _loose(one["value"]) for one in value} if name == "map" else value
