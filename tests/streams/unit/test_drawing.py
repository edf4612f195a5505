"""The drawing of a topology, read as XML: each node, topic, store and line of the description is there."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from semel import cli
from semel.streams import App, windows
from semel.streams.topology.drawing import draw
from semel.streams.topology.topology import Topology

SVG = "{http://www.w3.org/2000/svg}"


def words() -> App:
    """The application at the beginning of docs/streams.md."""
    app = App("word-count")
    counted = app.stream("lines").map_batches(lambda batch: batch).group_by("word").count(name="counts")
    counted.to_stream().to("counts-out")
    return app


def shop() -> App:
    """Joined, branched and merged, with a store that two nodes share and names that need escaping."""
    app = App("shop")
    users = app.table("users", key="string", value="json", name='users <all> & "more"')
    clicks = app.stream("clicks", key="string", value="string")
    some, others = clicks.join(users, lambda click, user: click).branch(lambda one: True, lambda one: False)
    some.to("inner")
    others.to("a-topic-with-a-name-" * 6)
    clicks.group_by("value").windowed(windows.tumbling(60_000)).count("counts").to_stream().to("back")
    app.stream("back", key="string", value="string").merge(clicks).to("inner")
    return app


def boxes(drawn: ElementTree.Element, kind: str) -> list[str]:
    return sorted(one.findtext(f"{SVG}title", "") for one in drawn.iter(f"{SVG}g") if one.get("class") == kind)


def lines(drawn: ElementTree.Element) -> set[tuple[str | None, str | None]]:
    return {(one.get("data-from"), one.get("data-to")) for one in drawn.iter(f"{SVG}path") if one.get("data-from")}


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
    drawn = ElementTree.fromstring(draw(topology))
    parts = topology.sub_topologies()
    topics = {one.topic for part in parts for one in part.sources} | {one.topic for part in parts for one in part.sinks}
    assert boxes(drawn, "step") == sorted(node.name for node in topology.nodes)
    assert boxes(drawn, "topic") == sorted(topics)
    assert boxes(drawn, "store") == sorted(spec.name for part in parts for spec in part.stores)
    assert lines(drawn) == described(topology)
    frames = [one.findtext(f"{SVG}text") for one in drawn.iter(f"{SVG}g") if one.get("class") == "frame"]
    assert frames == [f"Sub-topology: {part.number}" for part in parts]


@pytest.mark.parametrize("app", [words(), shop()], ids=["words", "shop"])
def test_no_two_boxes_overlap_and_all_are_in_the_picture(app: App) -> None:
    drawn = ElementTree.fromstring(draw(app.topology))
    places = [
        tuple(int(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        for group in drawn.iter(f"{SVG}g")
        for rect in group.findall(f"{SVG}rect")
        if group.get("class") != "frame"
    ]
    for one, other in combinations(places, 2):
        assert any(one[at] + one[at + 2] <= other[at] or other[at] + other[at + 2] <= one[at] for at in (0, 1))
    for x, y, wide, high in places:
        assert 0 < x < x + wide < int(drawn.attrib["width"])
        assert 0 < y < y + high < int(drawn.attrib["height"])


def test_the_picture_in_the_documentation_is_that_of_today() -> None:
    assert (Path(__file__).parents[3] / "docs" / "streams-topology.svg").read_text() == draw(words().topology)


def test_the_command_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("from semel.streams import App\napp = App('a')\napp.stream('in').to('out')\n")
    done = CliRunner().invoke(cli.app, ["streams", "describe", str(file), "--svg", str(tmp_path / "app.svg")])
    assert done.output.startswith("Topologies:")
    drawn = ElementTree.fromstring((tmp_path / "app.svg").read_text())
    assert boxes(drawn, "topic") == ["in", "out"]
    done = CliRunner().invoke(cli.app, ["streams", "describe", str(file), "--svg", str(tmp_path / "no" / "app.svg")])
    assert done.exit_code == 2
    assert "cannot be written" in done.output
