"""A topology as a drawing, in SVG: the nodes of :meth:`Topology.describe`, with their topics and stores.

Each sub-topology is a frame, one below the other. Its columns are the depth of its nodes; topics stand left and right
of the frame, stores below the nodes. Each box and each line carries the names that it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from xml.sax.saxutils import escape, quoteattr

from semel.streams.topology.topology import Node, Sink, Source, SubTopology, Topology

__all__ = ["draw"]

_WIDE, _HIGH = 150, 46
_ACROSS, _DOWN = _WIDE + 34, _HIGH + 22
_MARGIN, _HEAD, _FRAME = 24, 26, 14
_LETTERS, _LINES, _LINE = 20, 3, 13
#: How far from a box a line runs along it.
_LANE = 12
_STYLE = """
svg { background: #ffffff; font: 11px ui-monospace, Menlo, Consolas, monospace; }
.paper { fill: #ffffff; } text { fill: #1f2328; text-anchor: middle; }
.frame text { fill: #59636e; text-anchor: start; }
rect:not(.paper) { stroke: #59636e; } .frame rect { fill: none; stroke-dasharray: 5 4; }
.topic rect { fill: #ddf4ff; } .step rect { fill: #f6f8fa; } .store rect { fill: #fff8c5; }
path { fill: none; stroke: #59636e; stroke-width: 1.3; } .keeps { stroke-dasharray: 3 3; }
marker path { fill: #59636e; }
@media (prefers-color-scheme: dark) {
svg { background: #0d1117; } .paper { fill: #0d1117; } text { fill: #e6edf3; } .frame text { fill: #9198a1; }
rect:not(.paper), path { stroke: #9198a1; } marker path { fill: #9198a1; }
.topic rect { fill: #12314f; } .step rect { fill: #21262d; } .store rect { fill: #3b2f0b; }
}
"""
_ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z"/></marker></defs>'
)


@dataclass(frozen=True)
class _Box:
    kind: str
    name: str
    x: int
    y: int
    #: Above the frame of its sub-topology: where lines go back to the left.
    gap: int

    @property
    def svg(self) -> str:
        lines = wrap(self.name, _LETTERS, max_lines=_LINES, placeholder="…")
        top = self.y + _HIGH // 2 - (len(lines) - 1) * _LINE // 2 + 4
        spans = "".join(
            f'<text x="{self.x + _WIDE // 2}" y="{top + at * _LINE}">{escape(line)}</text>'
            for at, line in enumerate(lines)
        )
        return (
            f'<g class="{self.kind}"><title>{escape(self.name)}</title><rect x="{self.x}" y="{self.y}"'
            f' width="{_WIDE}" height="{_HIGH}" rx="{3 if self.kind == "step" else 16}"/>{spans}</g>'
        )


class _Drawing:
    def __init__(self, topology: Topology) -> None:
        self._steps: dict[str, _Box] = {}
        self._topics: dict[str, _Box] = {}
        self._stores: dict[str, _Box] = {}
        self._frames: list[str] = []
        self._top = _MARGIN
        self._right = 0
        parts = topology.sub_topologies()
        self._read = {source.topic for part in parts for source in part.sources}
        for part in parts:
            self._place(part)
        self._lines = [line for part in parts for node in part.nodes for line in self._lines_of(node)]

    def _place(self, part: SubTopology) -> None:
        """Give each node of a sub-topology a column and a row, then its stores, then the topics at both sides."""
        top, used = self._top + _HEAD + _FRAME, dict[int, int]()
        columns: dict[str, int] = {}
        rows: dict[str, int] = {}
        for node in part.nodes:
            columns[node.name] = column = 1 + max((columns[one.name] for one in node.parents), default=0)
            rows[node.name] = row = max([used.get(column, 0), *(rows[one.name] for one in node.parents[:1])])
            used[column] = row + 1
            self._steps[node.name] = _box("step", node.name, column, row, top)
        last, height = max(columns.values()), max(used.values())
        below: dict[int, int] = {}
        for node in part.nodes:
            for spec in node.stores:
                if spec.name not in self._stores:
                    column = columns[node.name]
                    row = below[column] = below.get(column, height - 1) + 1
                    self._stores[spec.name] = _box("store", spec.name, column, row, top)
        for source in part.sources:
            self._topics[source.topic] = _box("topic", source.topic, 0, rows[source.name], top)
        written = 0
        for sink in part.sinks:
            if sink.topic not in self._topics and sink.topic not in self._read:
                row = max(written, rows[sink.name])
                self._topics[sink.topic] = _box("topic", sink.topic, last + 1, row, top)
                written = row + 1
        high = max([height, written, *(row + 1 for row in below.values())]) * _DOWN
        x, wide = _MARGIN + _ACROSS - _FRAME, last * _ACROSS - (_ACROSS - _WIDE) + 2 * _FRAME
        self._frames.append(
            f'<g class="frame"><rect x="{x}" y="{self._top}" width="{wide}" height="{_HEAD + _FRAME + high}" rx="6"/>'
            f'<text x="{x + 10}" y="{self._top + 18}">Sub-topology: {part.number}</text></g>'
        )
        self._top += _HEAD + _FRAME + high + _DOWN
        self._right = max(self._right, (last + 1 + bool(written)) * _ACROSS)

    def _lines_of(self, node: Node) -> list[str]:
        step = self._steps[node.name]
        lines = [_line(self._steps[one.name], step) for one in node.parents]
        if isinstance(node, Source):
            lines.append(_line(self._topics[node.topic], step))
        if isinstance(node, Sink):
            lines.append(_line(step, self._topics[node.topic]))
        return lines + [_line(step, self._stores[spec.name]) for spec in node.stores]

    @property
    def svg(self) -> str:
        wide, high = self._right - (_ACROSS - _WIDE) + 2 * _MARGIN, self._top - _DOWN + _MARGIN
        boxes = [box.svg for found in (self._topics, self._steps, self._stores) for box in found.values()]
        body = "\n".join([*self._frames, *self._lines, *boxes])
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">\n'
            f"<style>{_STYLE}</style>{_ARROW}\n"
            f'<rect class="paper" width="{wide}" height="{high}"/>\n{body}\n</svg>\n'
        )


def draw(topology: Topology) -> str:
    """Return the drawing. Raises :class:`ConfigError` for a topology that reads nothing."""
    return _Drawing(topology).svg


def _box(kind: str, name: str, column: int, row: int, top: int) -> _Box:
    gap = max(top - _FRAME - _HEAD - _DOWN // 2, _MARGIN // 2)
    return _Box(kind, name, _MARGIN + column * _ACROSS, top + row * _DOWN, gap)


def _line(start: _Box, end: _Box) -> str:
    """Return a line to the next column, to a store, or to a topic; none runs behind a box that it does not mean."""
    middle, beyond = start.y + _HIGH // 2, end.y + _HIGH // 2
    right, under = start.x + _WIDE, start.y + _HIGH
    if end.kind == "store":
        straight = (end.x, end.y) == (start.x, start.y + _DOWN)
        to = f"V{end.y}" if straight else f"V{under + 6}H{end.x - _LANE // 2}V{beyond}H{end.x}"
        way = f"M{start.x + (_WIDE // 2 if straight else _LANE)} {under}{to}"
    elif end.x == start.x + _ACROSS:
        half = (_ACROSS - _WIDE) // 2
        way = f"M{right} {middle}C{right + half} {middle} {end.x - half} {beyond} {end.x} {beyond}"
    elif end.x > start.x:
        way = f"M{right} {middle}h{_LANE}V{under + _LANE}H{end.x - _LANE}V{beyond}H{end.x}"
    else:
        gap = max(start.gap, end.gap)
        way = f"M{right} {middle}h{_LANE // 2}V{gap}H{end.x - _LANE}V{beyond}H{end.x}"
    kind, arrow = ("keeps", "") if end.kind == "store" else ("leads", ' marker-end="url(#arrow)"')
    names = f"data-from={quoteattr(start.name)} data-to={quoteattr(end.name)}"
    return f'<path class="{kind}" {names} d="{way}"{arrow}/>'
