"""Transformations and predicates of a connector: read from its configuration, checked, and applied in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semel.connect.settings.connector_properties import ConnectorProperties
from semel.connect.transforms import envelopes, fields, headers, predicates, routing, schemas, timestamps
from semel.connect.transforms.base import Transform, refused
from semel.connect.transforms.predicates import Predicate
from semel.connect.transforms.record import Record
from semel.errors import ConfigError, SemelError
from semel.settings import Setting, nearest
from semel.settings.own_classes import JAVA, own_class

__all__ = ["PREDICATES", "TRANSFORMS", "Chain", "read_chain"]

_Tables = list[tuple[str, pa.Table]]
TRANSFORMS: dict[str, type[Transform]] = {
    made.__name__: made
    for made in (
        envelopes.ExtractNewRecordState,
        fields.ExtractField,
        fields.Flatten,
        fields.HoistField,
        fields.InsertField,
        fields.MaskField,
        fields.ReplaceField,
        fields.ValueToKey,
        headers.DropHeaders,
        headers.HeaderFrom,
        headers.InsertHeader,
        routing.Filter,
        routing.RegexRouter,
        schemas.Cast,
        schemas.SetSchemaMetadata,
        timestamps.TimestampConverter,
        timestamps.TimestampRouter,
    )
}
PREDICATES: dict[str, type[Predicate]] = {
    made.__name__: made for made in (predicates.HasHeaderKey, predicates.RecordIsTombstone, predicates.TopicNameMatches)
}


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

    def change(self, record: Record) -> Record | None:
        try:
            if self.predicate is not None and self.predicate.chooses(record) is self.negate:
                return record
            return self.transform.change(record)
        except (SemelError, RecursionError):
            raise
        except Exception as error:  # of a class of the user's own
            raise refused(self.transform.name, f"it raised {type(error).__name__}: {error!s:.200}") from error


@dataclass(frozen=True, slots=True)
class Chain:
    """Transformations in their order."""

    links: Sequence[_Link] = ()

    @property
    def takes_tables(self) -> bool:
        """True if each of them, and each predicate, takes a table at once."""
        return all(
            link.transform.takes_tables() and (link.predicate is None or link.predicate.takes_tables())
            for link in self.links
        )

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

    def change(self, record: Record) -> Record | None:
        """Return what a record becomes, or None if it is left out."""
        changed: Record | None = record
        for link in self.links:
            if changed is None:
                break
            changed = link.change(changed)
        return changed


def read_chain(properties: ConnectorProperties) -> Chain:
    """Return the chain of a connector's properties. Problems are noted there."""
    aliases, names = properties.aliases("predicates"), properties.aliases("transforms")
    made = {alias: _predicate(properties, f"predicates.{alias}.") for alias in aliases}
    links = [_link(properties, f"transforms.{alias}.", made) for alias in names]
    return Chain([link for link in links if link is not None])


def _link(properties: ConnectorProperties, prefix: str, made: Mapping[str, Predicate | None]) -> _Link | None:
    kind, side = _class(properties, prefix, Transform, TRANSFORMS, *{one.package for one in TRANSFORMS.values()})
    predicate = properties.text(f"{prefix}predicate")
    negate = properties.read(f"{prefix}negate", Setting(bool, False))
    if predicate and predicate not in made:
        properties.add(f"{prefix}predicate", f"predicates does not name {predicate:.100}.")
        return None
    if kind is None:
        return None
    if kind.sided is not bool(side) or (kind is routing.Filter and not predicate):
        what = "$Key or $Value after its name" if kind.sided else "no side"
        what = "a predicate" if kind is routing.Filter else what
        properties.add(f"{prefix}type", f"{kind.__name__} needs {what}.")
        properties.below(prefix)
        return None
    found = _built(properties, prefix, kind.options, lambda options: kind(options, side.lower() or "value"))
    return None if found is None else _Link(found, made.get(predicate), negate is True)


def _predicate(properties: ConnectorProperties, prefix: str) -> Predicate | None:
    kind, _ = _class(properties, prefix, Predicate, PREDICATES, "org.apache.kafka.connect.transforms.predicates.")
    return None if kind is None else _built(properties, prefix, kind.options, kind)


def _class(
    properties: ConnectorProperties, prefix: str, base: type[Any], known: Mapping[str, Any], *packages: str
) -> tuple[Any, str]:
    """Return the class of a ``type``, and the side that it names."""
    given = properties.text(f"{prefix}type")
    package = next((one for one in packages if given.startswith(one)), "")
    name, _, side = given.removeprefix(package).partition("$")
    made = known.get(name)
    try:
        if made is None and not given.startswith(JAVA):
            made = own_class(name, base, f"{base.__name__.lower()}s")
    except ConfigError as error:
        properties.add(f"{prefix}type", error.message)
        properties.below(prefix)
        return None, ""
    if made is None or side not in ("", "Key", "Value"):
        hint = nearest(name, known) or "."
        more = "a class of your own by its Python name, package.module.Class"
        text = f"{prefix}type={given:.200} is not there{hint} These are: {', '.join(known)}; or {more}."
        properties.add(f"{prefix}type", text)
        properties.below(prefix)
        return None, ""
    return made, side


def _built(
    properties: ConnectorProperties,
    prefix: str,
    options: Mapping[str, Setting],
    make: Callable[[Mapping[str, Any]], Any],
) -> Any:
    before = len(properties.problems)
    values = {name: properties.read(f"{prefix}{name}", setting) for name, setting in options.items()}
    if len(properties.problems) > before:
        return None
    try:
        return make(values)
    except ConfigError as error:
        properties.add(f"{prefix}type", error.message)
        return None
