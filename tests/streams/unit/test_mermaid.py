"""The flowchart of a topology, read: each node, topic, store and line of the description is there."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semel import cli
from semel.streams import App, windows
from semel.streams.topology.mermaid import mermaid
from semel.streams.topology.topology import Topology


def words() -> App:
    """The application at the beginning of docs/streams.md."""
    app = App("word-count")
    counted = app.stream("lines").map_batches(lambda batch: batch).group_by("word").count(name="counts")
    counted.to_stream().to("counts-out")
    return app


def shop() -> App:
    """Joined, branched and merged, with a store that two nodes share and names that need escaping."""
    app = App("shop")
    users = app.table("users", key="string", value="json", name='users <all> & "more" #1')
    clicks = app.stream("clicks", key="string", value="string")
    some, others = clicks.join(users, lambda click, user: click).branch(lambda one: True, lambda one: False)
    some.to("inner")
    others.to("a-topic-with-a-name-" * 6)
    clicks.group_by("value").windowed(windows.tumbling(60_000)).count("counts").to_stream().to("back")
    app.stream("back", key="string", value="string").merge(clicks).to("inner")
    return app


@dataclass
class Chart:
    """A flowchart, read: the names of its boxes by the kind of their ids, its lines, and the boxes of each frame."""

    boxes: dict[str, list[str]]
    lines: list[tuple[str, str]]
    frames: dict[str, list[str]]


def read(text: str) -> Chart:
    head, *rest = text.splitlines()
    assert head == "flowchart LR"
    names: dict[str, str] = {}
    chart = Chart({"topic": [], "step": [], "store": []}, [], {})
    frame: list[str] | None = None
    for line in map(str.strip, rest):
        if begun := re.fullmatch(r'subgraph part\d+\["(.+)"\]', line):
            frame = chart.frames[begun[1]] = []
        elif line == "end":
            frame = None
        elif box := re.fullmatch(r'((topic|step|store)\d+)(\[\(|\[|\(\[)"([^"<>&]+)"[\])]+', line):
            assert box[1] not in names
            assert {"topic": "[(", "step": "[", "store": "(["}[box[2]] == box[3]
            names[box[1]] = html.unescape(re.sub(r"#(\w+);", as_entity, box[4]))
            chart.boxes[box[2]].append(names[box[1]])
            assert (frame is None) == (box[2] == "topic")
            if frame is not None:
                frame.append(names[box[1]])
        else:
            start, arrow, end = line.split(" ")
            assert arrow == ("-.-" if end.startswith("store") else "-->")
            chart.lines.append((names[start], names[end]))
    return chart


def as_entity(found: re.Match[str]) -> str:
    return f"&#{found[1]};" if found[1].isdigit() else f"&{found[1]};"


def described(topology: Topology) -> set[tuple[str, str]]:
    """The lines of the text: between nodes, to and from topics, and to stores."""
    found: set[tuple[str, str]] = set()
    name = ""
    for line in topology.describe().splitlines():
        head = re.match(r" +(Source|Sink|Processor): (\S+) \(\w+: \[?(.*?)\]?\)$", line)
        if head is not None:
            name = head[2]
            pair = (head[3], name) if head[1] == "Source" else (name, head[3])
            found |= {pair} if head[3] else set()
        elif line.startswith("      --> ") and not line.endswith(" none"):
            found |= {(name, other) for other in line[10:].split(", ")}
    return found


@pytest.mark.parametrize("app", [words(), shop()], ids=["words", "shop"])
def test_each_node_and_line_is_drawn_once(app: App) -> None:
    topology = app.topology
    chart = read(mermaid(topology))
    parts = topology.sub_topologies()
    topics = {one.topic for part in parts for one in part.sources} | {one.topic for part in parts for one in part.sinks}
    assert sorted(chart.boxes["step"]) == sorted(node.name for node in topology.nodes)
    assert sorted(chart.boxes["topic"]) == sorted(topics)
    assert sorted(chart.boxes["store"]) == sorted(spec.name for part in parts for spec in part.stores)
    assert sorted(chart.lines) == sorted(described(topology))
    assert chart.frames == {
        f"Sub-topology: {part.number}": [node.name for node in part.nodes] + [spec.name for spec in part.stores]
        for part in parts
    }


def test_the_flowchart_in_the_documentation_is_that_of_today() -> None:
    page = (Path(__file__).parents[3] / "docs" / "streams.md").read_text()
    assert f"```mermaid\n{mermaid(words().topology)}```" in page


def test_the_command_prints_it(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("from semel.streams import App\napp = App('a')\napp.stream('in').to('out')\n")
    done = CliRunner().invoke(cli.app, ["streams", "describe", str(file)])
    assert done.output.startswith("Topologies:")
    done = CliRunner().invoke(cli.app, ["streams", "describe", str(file), "--mermaid"])
    assert read(done.output.rstrip("\n")).boxes["topic"] == ["in", "out"]
