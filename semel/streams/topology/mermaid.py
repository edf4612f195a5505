"""A topology as a Mermaid flowchart: the nodes of :meth:`Topology.describe`, with their topics and stores."""

from __future__ import annotations

from semel.streams.topology.node import Sink, Source
from semel.streams.topology.topology import Topology

__all__ = ["mermaid"]

#: Mermaid's entities: without an ampersand.
_ENTITIES = {"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;"}


def mermaid(topology: Topology) -> str:
    """Return the text of the flowchart. Raise :class:`ConfigError` for a topology that reads nothing."""
    parts = topology.sub_topologies()
    ends = [node for part in parts for node in part.nodes if isinstance(node, Source | Sink)]
    names = dict.fromkeys([*map(_topic, ends), *(one.topic for one in topology.globals)])
    topics = {topic: f"topic{number}" for number, topic in enumerate(names)}
    steps = {node.name: f"step{number}" for number, node in enumerate(topology.nodes)}
    stores = {name: f"store{at}" for at, name in enumerate(spec.name for part in parts for spec in part.stores)}
    lines = [
        "flowchart LR",
        *(f'    {name}[("{_label(topic or "topics of a function")}")]' for topic, name in topics.items()),
    ]
    for part in parts:
        lines.append(f'    subgraph part{part.number}["Sub-topology: {part.number}"]')
        lines += [f'        {steps[node.name]}["{_label(node.name)}"]' for node in part.nodes]
        lines += [f'        {stores[spec.name]}(["{_label(spec.name)}"])' for spec in part.stores]
        lines.append("    end")
    for at, one in enumerate(topology.globals):
        lines.append(f'    global{at}(["{_label(one.spec.name)}: in each worker"])')
        lines.append(f"    {topics[one.topic]} --> global{at}")
        lines += [f"    {steps[node.name]} -.- global{at}" for node in topology.nodes if node.reads_global is one.spec]
    for node in topology.nodes:
        step = steps[node.name]
        lines += [f"    {steps[parent.name]} --> {step}" for parent in node.parents]
        lines += [f"    {topics[_topic(node)]} --> {step}"] if isinstance(node, Source) else []
        lines += [f"    {step} --> {topics[_topic(node)]}"] if isinstance(node, Sink) else []
        lines += [f"    {step} -.- {stores[spec.name]}" for spec in node.stores]
    return "\n".join(lines) + "\n"


def _topic(node: Source | Sink) -> str:
    return node.pattern.pattern if isinstance(node, Source) and node.pattern is not None else node.topic


def _label(name: str) -> str:
    return "".join(_ENTITIES.get(letter, letter) for letter in name)
