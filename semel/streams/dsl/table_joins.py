"""Joins of two tables by their keys."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError
from semel.serdes.serde import Serde, check_serde
from semel.streams.dsl.refused import later
from semel.streams.nodes.stateful import value_reader
from semel.streams.nodes.tables.join import JoinedView, TableJoin, TableJoiner
from semel.streams.nodes.tables.old_values import OldValues
from semel.streams.topology.node import Node

if TYPE_CHECKING:
    from semel.streams.dsl.table import Table

__all__ = ["join_tables"]


def join_tables(this: Table, other: Table, joiner: TableJoiner, value: Serde, *, left: bool, right: bool) -> Table:
    """Return the table of what ``joiner`` makes of both values. ``left`` and ``right`` say whose values have a result
    without a partner.
    """
    _check(this, other, joiner)
    check_serde(value, "join")
    topology = this.topology
    views = this.readable("joins"), other.readable("joins")
    merged, *names = (topology.name(f"KTABLE-{kind}-") for kind in ("MERGE", "JOINTHIS", "JOINOTHER"))
    for table in (this, other):
        table.has_values(merged)
    old = OldValues(this.old, other.old)
    for table, alone in ((this, left), (other, right)):
        if alone:  # a deletion has a result only if there was one
            table.old.ask()
    serdes = (this.value, other.value, value)
    of_this = TableJoin(names[0], views[1], joiner, this.key, serdes, left, right, old)
    of_other = TableJoin(
        names[1], views[0], _reversed(joiner), other.key, (other.value, this.value, value), right, left, old
    )
    sides = [
        topology.add(
            Node(
                name,
                (table.node,),
                operate,
                operate.other.specs,
                by_record=True,
                keeps_key=True,
                keeps_origin=True,
                reads_only=True,
            )
        )
        for name, table, operate in zip(names, (this, other), (of_this, of_other), strict=True)
    ]
    node = topology.add(Node(merged, tuple(sides), keeps_key=True, keeps_origin=True))
    view = JoinedView(views[0], of_this)
    return replace(this, node=node, value=value, read=value_reader(value), view=view, old=old)


def _check(this: Table, other: Any, joiner: Any) -> None:
    if not isinstance(other, type(this)) or not callable(joiner):
        raise ConfigError(
            "a table is joined with another table and a function of two values. Nothing was read. Give both.",
            tag="TOPOLOGY",
        )
    if this.windows is not None or other.windows is not None:
        raise later("joins with a table of windows", "Write it to a topic, and read that as a table")


def _reversed(joiner: TableJoiner) -> TableJoiner:
    return lambda other, this: joiner(this, other)
