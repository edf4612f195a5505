"""Transformations and predicates of a connector: read from its configuration, checked, and applied in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semel.config import nearest
from semel.connect.api import Setting
from semel.connect.transforms import fields, predicates, routing, timestamps
from semel.connect.transforms.base import Transform
from semel.connect.transforms.predicates import Predicate
from semel.errors import ConfigError

__all__ = ["PREDICATES", "TRANSFORMS", "Chain", "Found", "read_chain"]

_PACKAGE = "org.apache.kafka.connect.transforms."
_Tables = list[tuple[str, pa.Table]]
TRANSFORMS: dict[str, type[Transform]] = {
    made.__name__: made
    for made in (
        fields.ExtractField,
        fields.HoistField,
        fields.InsertField,
        fields.MaskField,
        fields.ReplaceField,
        fields.ValueToKey,
        routing.Filter,
        routing.RegexRouter,
        timestamps.TimestampConverter,
    )
}
PREDICATES: dict[str, type[Predicate]] = {
    made.__name__: made for made in (predicates.HasHeaderKey, predicates.RecordIsTombstone, predicates.TopicNameMatches)
}


@dataclass(frozen=True, slots=True)
class Found:
    """A problem, at its setting."""

    setting: str
    text: str


#: Reads one setting of a given text: its value, or a :class:`Found` that was noted.
Convert = Callable[[str, str, Setting], Any]


@dataclass(frozen=True, slots=True)
class _Link:
    transform: Transform
    predicate: Predicate | None
    negate: bool

    def apply(self, topic: str, table: pa.Table) -> _Tables:
        if self.predicate is None:
            return [self.transform.apply(topic, table)]
        chosen = self.predicate.chosen(topic, table)
        if isinstance(chosen, bool):
            return [self.transform.apply(topic, table) if chosen is not self.negate else (topic, table)]
        mask = pc.invert(chosen) if self.negate else chosen
        count = pc.sum(mask).as_py() or 0
        if count == table.num_rows:
            return [self.transform.apply(topic, table)]
        if count == 0:
            return [(topic, table)]
        there, changed = self.transform.apply(topic, table.filter(mask))
        rest = table.filter(pc.invert(mask))
        if changed.num_rows == 0:
            return [(topic, rest)]
        if there != topic or not changed.schema.equals(rest.schema):
            return [(there, changed), (topic, rest)]  # together they would have fields or types of each other
        places = pa.concat_arrays([pc.indices_nonzero(mask), pc.indices_nonzero(pc.invert(mask))])
        return [(topic, pa.concat_tables([changed, rest]).take(pc.sort_indices(places)))]


@dataclass(frozen=True, slots=True)
class Chain:
    """Transformations in their order."""

    links: Sequence[_Link] = ()

    @property
    def divides(self) -> bool:
        """True if one table of a topic may become several of that topic."""
        return any(link.predicate is not None for link in self.links)

    def apply(self, topic: str, table: pa.Table) -> _Tables:
        """Return the tables that a table of one topic becomes."""
        tables = [(topic, table)]
        for link in self.links:
            tables = [made for one, rows in tables if rows.num_rows for made in link.apply(one, rows)]
        return [(one, rows) for one, rows in tables if rows.num_rows]


def read_chain(given: Mapping[str, str], convert: Convert) -> tuple[Chain, list[Found], set[str]]:
    """Return the chain of these properties, the problems with them, and the names that were read."""
    reading = _Reading(given, convert)
    chain = reading.chain()
    return chain, reading.found, reading.read


class _Reading:
    def __init__(self, given: Mapping[str, str], convert: Convert) -> None:
        self._given, self._convert = given, convert
        self.found: list[Found] = []
        self.read: set[str] = {"transforms", "predicates"}

    def chain(self) -> Chain:
        made = {alias: self._predicate(f"predicates.{alias}.") for alias in self._aliases("predicates")}
        links = [self._link(f"transforms.{alias}.", made) for alias in self._aliases("transforms")]
        return Chain([link for link in links if link is not None])

    def _aliases(self, name: str) -> list[str]:
        aliases = [one.strip() for one in self._given.get(name, "").split(",") if one.strip()]
        if len(set(aliases)) < len(aliases):
            self.found.append(Found(name, f"{name} names one twice."))
        return list(dict.fromkeys(aliases))

    def _link(self, prefix: str, made: Mapping[str, Predicate | None]) -> _Link | None:
        kind, side = self._class(prefix, TRANSFORMS, _PACKAGE)
        predicate = self._text(f"{prefix}predicate")
        negate = self._text(f"{prefix}negate").lower() == "true"
        if predicate and predicate not in made:
            self.found.append(Found(f"{prefix}predicate", f"predicates does not name {predicate:.100}."))
            return None
        if kind is None:
            return None
        if kind.sided is not bool(side) or (kind is routing.Filter and not predicate):
            what = "$Key or $Value after its name" if kind.sided else "no side"
            what = "a predicate" if kind is routing.Filter else what
            self.found.append(Found(f"{prefix}type", f"{kind.__name__} needs {what}."))
            self.read |= {key for key in self._given if key.startswith(prefix)}
            return None
        found = self._built(prefix, kind.options, lambda options: kind(options, side.lower() or "value"))
        return None if found is None else _Link(found, made.get(predicate), negate)

    def _predicate(self, prefix: str) -> Predicate | None:
        kind, _ = self._class(prefix, PREDICATES, f"{_PACKAGE}predicates.")
        return None if kind is None else self._built(prefix, kind.options, kind)

    def _class(self, prefix: str, known: Mapping[str, Any], package: str) -> tuple[Any, str]:
        given = self._text(f"{prefix}type")
        name, _, side = given.removeprefix(package).partition("$")
        if name not in known or side not in ("", "Key", "Value"):
            hint = nearest(name, known) or "."
            text = f"{prefix}type={given:.200} is not there{hint} These are: {', '.join(known)}."
            self.found.append(Found(f"{prefix}type", text))
            self.read |= {key for key in self._given if key.startswith(prefix)}
            return None, ""
        return known[name], side

    def _built(self, prefix: str, options: Mapping[str, Setting], make: Callable[[Mapping[str, Any]], Any]) -> Any:
        values: dict[str, Any] = {}
        before = len(self.found)
        for name, setting in options.items():
            key = f"{prefix}{name}"
            self.read.add(key)
            if key in self._given:
                values[name] = self._convert(key, self._given[key], setting)
            elif setting.default is None or isinstance(setting.default, str | tuple):
                values[name] = setting.default
            else:
                text = f'Missing required configuration "{key}" which has no default value.'
                self.found.append(Found(key, text))
        if len(self.found) > before or (None in values.values() and _refused_one(options, values)):
            return None
        try:
            return make(values)
        except ConfigError as error:
            self.found.append(Found(f"{prefix}type", error.message))
            return None

    def _text(self, key: str) -> str:
        self.read.add(key)
        return self._given.get(key, "").strip()


def _refused_one(options: Mapping[str, Setting], values: Mapping[str, Any]) -> bool:
    """Return whether a given value could not be read: it is None, and its default is not."""
    return any(value is None and options[name].default is not None for name, value in values.items())
