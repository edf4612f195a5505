"""A schema of Avro as a tree, and its text as Avro's Java library writes it: the registry compares texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from semel.serdes.java_value import java_number

__all__ = ["NO_DEFAULT", "AvroField", "Float", "Named", "Node", "Of", "Plain", "Union", "text_of"]

NO_DEFAULT: Any = object()
_encode = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class Float:
    """A number of 32 or 64 bits in a default, which Java writes in its own way."""

    value: float
    bits: int


@dataclass(slots=True)
class Plain:
    """A type without parts, such as ``int``."""

    type: str
    props: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Of:
    """An array or a map of a type."""

    type: str
    inner: Node
    props: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class AvroField:
    """A field of a record."""

    name: str
    node: Node
    doc: str | None = None
    default: Any = NO_DEFAULT
    props: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Named:
    """A record, an enumeration or a fixed number of bytes: a type that is written once, and then named."""

    type: str
    space: str | None
    name: str
    doc: str | None = None
    fields: list[AvroField] = field(default_factory=list)
    #: Symbols of an enumeration, or the size of a fixed number of bytes.
    details: Mapping[str, Any] = field(default_factory=dict)
    props: dict[str, Any] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """The namespace and the name."""
        return f"{self.space}.{self.name}" if self.space else self.name


@dataclass(slots=True)
class Union:
    """A choice of types."""

    branches: Sequence[Node]


Node = Plain | Of | Named | Union


def text_of(node: Node, nameless: str | None = None) -> str:
    """Return a schema as text. Types without a namespace get the one ``nameless``: else not every reader finds them."""
    return _Text(nameless).of(node, None)


class _Text:
    """One text on its way: a type is written once, and then named."""

    def __init__(self, nameless: str | None) -> None:
        self._nameless = nameless
        self._written: set[str] = set()

    def of(self, node: Node, around: str | None) -> str:
        """Return a part of a schema. ``around`` is the namespace around it."""
        if isinstance(node, Union):
            return f"[{','.join(self.of(one, around) for one in node.branches)}]"
        if isinstance(node, Plain):
            return _object(_members(type=node.type, **node.props)) if node.props else _encode(node.type)
        if isinstance(node, Of):
            part = ("items" if node.type == "array" else "values"), self.of(node.inner, around)
            return _object([("type", _encode(node.type)), part, *_members(**node.props)])
        space = node.space or self._nameless
        if node.full_name in self._written:
            return _encode(node.name if space in (around, None) else f"{space}.{node.name}")
        self._written.add(node.full_name)
        return _object(self._named(node, space, around))

    def _named(self, node: Named, space: str | None, around: str | None) -> Iterator[tuple[str, str]]:
        yield from _members(type=node.type, name=node.name)
        if space != around:
            yield "namespace", _encode(space or "")
        if node.doc is not None:
            yield "doc", _encode(node.doc)
        if node.type == "record":
            fields = (_object(self._field(one, space)) for one in node.fields)
            yield "fields", f"[{','.join(fields)}]"
        yield from _members(**node.details)
        yield from _members(**node.props)

    def _field(self, one: AvroField, around: str | None) -> Iterator[tuple[str, str]]:
        yield "name", _encode(one.name)
        yield "type", self.of(one.node, around)
        if one.doc is not None:
            yield "doc", _encode(one.doc)
        if one.default is not NO_DEFAULT:
            yield "default", _value(one.default)
        yield from _members(**one.props)


def _members(**values: Any) -> Iterator[tuple[str, str]]:
    return ((name, _value(value)) for name, value in values.items())


def _object(members: Any) -> str:
    return "{" + ",".join(f"{_encode(name)}:{value}" for name, value in members) + "}"


def _value(value: Any) -> str:
    if isinstance(value, Float):
        return java_number(value.value, value.bits)
    if isinstance(value, Mapping):
        return _object((name, _value(one)) for name, one in value.items())
    if isinstance(value, list):
        return f"[{','.join(map(_value, value))}]"
    return _encode(value)
