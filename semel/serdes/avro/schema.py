"""The schema of Avro for one of Kafka Connect, as Confluent's ``AvroData`` makes it.

A type that Avro lacks keeps its name in a property: ``connect.type`` says int8, ``connect.name`` a name that is no
record's. Optional is a choice of null and the type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semel.serdes.avro.defaults import default_json, fits, has_text_keys
from semel.serdes.avro.names import NAMESPACE, field_name, full_name
from semel.serdes.avro.nodes import NO_DEFAULT, AvroField, Named, Node, Of, Plain, Union
from semel.serdes.avro.options import AvroOptions
from semel.serdes.schemas.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from semel.serdes.unfit import Mismatch

__all__ = ["ENUM", "FIXED_SIZE", "anything", "avro_schema", "is_enum", "is_union"]

FIXED_SIZE = "connect.fixed.size"
ENUM = f"{NAMESPACE}.Enum"
_UNION = f"{NAMESPACE}.Union"
_RECORD_DOC, _FIELD_DOC, _ENUM_DOC = f"{NAMESPACE}.record.doc", f"{NAMESPACE}.field.doc.", f"{NAMESPACE}.enum.doc."
_ENUM_DEFAULT = f"{NAMESPACE}.enum.default."
_FIELD_DEFAULT = f"{NAMESPACE}.field.default"
_PRECISION, _DIGITS = "connect.decimal.precision", 64
_TYPES = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_LOGICAL = {DATE: "date", TIME: "time-millis", TIMESTAMP: "timestamp-millis"}


def avro_schema(schema: Schema | None, options: AvroOptions) -> Node:
    """Return the schema of Avro. Raise :class:`Mismatch` for one that Avro cannot say."""
    return anything() if schema is None else _Builder(options).build(schema)


def anything() -> Named:
    """Return the record that holds a value without a schema, whatever it is."""
    made = Named("record", NAMESPACE, "Anything")
    entry = Named("record", NAMESPACE, "MapEntry", fields=[AvroField("key", made), AvroField("value", made)])
    parts: list[tuple[str, Node]] = [
        *((name, Plain(name)) for name in ("boolean", "bytes", "double", "float", "int", "long", "string")),
        ("array", Of("array", made)),
        ("map", Of("array", entry)),
    ]
    made.fields = [AvroField(name, Union([Plain("null"), node]), default=None) for name, node in parts]
    return made


def is_union(schema: Schema) -> bool:
    """Return whether a struct is a choice: one of its fields has a value, and stands alone in Avro."""
    return schema.name == _UNION


def is_enum(schema: Schema, options: AvroOptions) -> bool:
    """Return whether a text is one of a few symbols."""
    return options.enhanced and ENUM in (schema.parameters or {})


class _Builder:
    """One schema on its way. Equal schemas are one type of Avro, and a name stands for one type."""

    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._made: dict[Schema, Node] = {}
        self._named: dict[str, tuple[Schema, Named]] = {}
        self._unnamed = 0
        self._fields_seen: set[str] = set()

    def build(self, schema: Schema, *, choice: bool = False) -> Node:
        """Return the node of a schema. The parts of a ``choice`` are not optional by themselves."""
        if not schema.optional and schema in self._made:
            return self._made[schema]
        if is_union(schema):
            parts: list[Node] = [Plain("null")] if schema.optional else []
            parts += [self.build(one.schema.but(optional=False), choice=True) for one in schema.fields]
            node: Node = Union(parts)
        elif schema.type is Type.STRUCT and schema.optional:
            # the default is said by the type, and the choice of null comes first all the same
            node = Union([Plain("null"), self.build(schema.but(optional=False))])
        else:
            base = self._base(schema)
            self._describe(schema, base)
            node = base if choice else _optional(schema, base)
        if not schema.optional:
            self._made[schema] = node
        return node

    def _base(self, schema: Schema) -> Plain | Of | Named:
        match schema.type:
            case Type.STRUCT:
                return self._record(schema)
            case Type.ARRAY if schema.values is not None:
                return Of("array", self._inner(schema.values))
            case Type.MAP if schema.values is not None and schema.keys is not None:
                if has_text_keys(schema, self._options):
                    return Of("map", self._inner(schema.values))
                return Of("array", self._entry(schema))
            case Type.STRING if is_enum(schema, self._options):
                return self._enum(schema)
            case Type.BYTES if FIXED_SIZE in (schema.parameters or {}):
                return self._fixed(schema)
        made = Plain(_TYPES[schema.type])
        if schema.logical == DECIMAL:
            made.props |= {"scale": schema.scale, "precision": _precision(schema)}
        return made

    def _inner(self, schema: Schema) -> Node:
        """Return the node of items: a record that is known by its name is that one."""
        found = self._named.get(schema.name) if schema.name is not None else None
        if found is None or schema.type is not Type.STRUCT:
            return self.build(schema)
        self._check_same(schema, found[0])
        return _optional(schema, found[1])

    def _name(self, schema: Schema) -> tuple[str | None, str]:
        if schema.name is not None:
            return full_name(schema.name, self._options)
        self._unnamed += 1
        return NAMESPACE, f"ConnectDefault{self._unnamed if self._unnamed > 1 else ''}"

    def _record(self, schema: Schema) -> Named:
        space, name = self._name(schema)
        parameters = schema.parameters or {}
        docs = self._options.field_docs
        made = Named("record", space, name, doc=parameters.get("connect.record.doc" if docs else _RECORD_DOC))
        self._enter(schema, made)
        for one in schema.fields:
            doc = one.schema.doc if docs else parameters.get(_FIELD_DOC + one.name)
            made.fields.append(self._field(field_name(one.name, self._options), one.schema, doc))
        if len({one.name for one in made.fields}) < len(made.fields):
            raise Mismatch(f"has a schema {made.full_name:.60} of which two fields get one name in Avro")
        return made

    def _enter(self, schema: Schema, made: Named) -> None:
        """Note the name of a type. Raise :class:`Mismatch` if another type has it."""
        found = self._named.get(made.full_name)
        if found is not None:
            self._check_same(schema, found[0])
        self._named.setdefault(made.full_name, (schema, made))

    def _check_same(self, schema: Schema, other: Schema) -> None:
        """Raise :class:`Mismatch` for two schemas that would be one type of Avro."""
        if (schema.type, schema.fields, schema.parameters) != (other.type, other.fields, other.parameters):
            raise Mismatch(f"has two schemas with the name {schema.name!s:.60}, and a name of Avro stands for one")

    def _field(self, name: str, schema: Schema, doc: str | None) -> AvroField:
        default = NO_DEFAULT
        if schema.default is not None:
            default = default_json(schema, schema.default, self._options)
        elif schema.optional:
            default = None
        node = self.build(schema)
        made = AvroField(name, node, doc)
        if default is not NO_DEFAULT and fits(node, default):
            made.default = default
        return made

    def _entry(self, schema: Schema) -> Named:
        assert schema.keys is not None
        assert schema.values is not None
        if schema.name is None:
            made = Named("record", NAMESPACE, "MapEntry")
        else:
            space, name = self._name(schema)
            made = Named("record", space, name, props={"connect.internal.type": "MapEntry"})
        parts = Schema.struct({"key": schema.keys, "value": schema.values}, name=made.full_name)
        self._enter(parts, made)
        made.fields = [self._field("key", schema.keys, None), self._field("value", schema.values, None)]
        return made

    def _enum(self, schema: Schema) -> Named:
        parameters = schema.parameters or {}
        name, docs = self._name(schema)[1], self._options.field_docs
        symbols = [one.removeprefix(f"{ENUM}.") for one in parameters if one.startswith(f"{ENUM}.")]
        details: dict[str, Any] = {"symbols": symbols}
        if not docs and _ENUM_DEFAULT + name in parameters:
            details["default"] = parameters[_ENUM_DEFAULT + name]
        space, last = full_name(parameters[ENUM], self._options)
        doc = parameters.get("connect.enum.doc" if docs else _ENUM_DOC + name)
        made = Named("enum", space, last, doc=doc, details=details)
        self._enter(schema, made)
        return made

    def _fixed(self, schema: Schema) -> Named:
        space, name = self._name(schema)
        made = Named("fixed", space, name, details={"size": int((schema.parameters or {})[FIXED_SIZE])})
        if schema.logical == DECIMAL:
            made.props |= {"scale": schema.scale, "precision": _precision(schema)}
        self._enter(schema, made)
        return made

    def _describe(self, schema: Schema, node: Plain | Of | Named) -> None:
        """Write what Avro has no word for as properties, in the order of Confluent's."""
        parameters = schema.parameters
        if self._options.connect_metadata:
            node.props |= self._metadata(schema, parameters)
        logical = _LOGICAL.get(schema.logical or "")
        if schema.logical == DECIMAL:
            logical = "decimal"
        if logical is not None:
            node.props["logicalType"] = logical
        node.props |= {name: value for name, value in (parameters or {}).items() if name.startswith("avro")}

    def _metadata(self, schema: Schema, parameters: Mapping[str, str] | None) -> dict[str, Any]:
        said: dict[str, Any] = {"connect.doc": schema.doc, "connect.version": schema.version}
        flagged = not self._options.field_docs and _FIELD_DEFAULT in (parameters or {})
        if parameters is not None:
            shown = {name: value for name, value in parameters.items() if not (flagged and name == _FIELD_DEFAULT)}
            said["connect.parameters"] = shown or None
        if schema.default is not None and not flagged:
            said["connect.default"] = default_json(schema, schema.default, self._options)
        said["connect.name"] = schema.name
        said["connect.type"] = schema.type.value if schema.type in (Type.INT8, Type.INT16) else None
        return {name: value for name, value in said.items() if value is not None}


def _optional(schema: Schema, base: Node) -> Node:
    if not schema.optional:
        return base
    return Union([Plain("null"), base] if schema.default is None else [base, Plain("null")])


def _precision(schema: Schema) -> int:
    return int((schema.parameters or {}).get(_PRECISION, _DIGITS))
