"""Random cases: topologies of the words that there are, and records. A seed makes a case, always the same one."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from semel.streams.topology.node import Sink
from tests.streams.oracle.drafts import BadDraft, Draft, NewDraft, Stream, TableDraft, WordDraft
from tests.streams.oracle.third_draft import ThirdDraft
from tests.streams.oracle.topologies import build
from tests.streams.oracle.version_draft import VersionDraft

__all__ = ["Case", "case"]

Case = Mapping[str, Any]
_TOPICS = ("a", "b", "c")


_DRAFTS = {
    "bad": BadDraft,
    "first": Draft,
    "new": NewDraft,
    "second": WordDraft,
    "tables": TableDraft,
    "third": ThirdDraft,
    "versions": VersionDraft,
}


def case(seed: int, release: str = "first") -> Case:
    """Return a topology and its records: topic, key, value and time of each. Its words are those of the first release,
    of the ``second`` one too, of ``tables`` too, the ``new`` ones too, those of the ``third`` release too, or of
    ``versions`` too.
    """
    draw = random.Random(seed)
    draft = _DRAFTS[release](draw)
    for topic in draw.sample(_TOPICS, draw.randint(1, 3)):
        if not draft.streams or draw.random() < 0.5:
            draft.streams.append(Stream(draft.add("stream", name=topic)))
        else:
            draft.tables.append(Stream(draft.add("table", topic=topic, name=f"{topic}-table")))
    if isinstance(draft, WordDraft):
        draft.sources()
    words = (draft.filter, draft.map_values, draft.map, draft.branch, draft.merge)
    deep = (draft.fold, draft.fold, draft.join, draft.join, draft.process, draft.process)
    for _ in range(draw.randint(1, 6)):
        draw.choice((*words, *deep, draft.to, *draft.second()))()
    for stream in draft.streams[-2:]:
        draft.steps.append({"op": "to", "of": stream.id, "name": f"out{draw.randrange(2)}"})
    _keep_apart(draft.steps)
    records = _records(draft)
    if release == "new":
        return {"seed": seed, "steps": draft.steps, "records": _with_headers(draw, records), "clock": 5}
    if release != "bad":
        return {"seed": seed, "steps": draft.steps, "records": records}
    for record in records:
        if draw.random() < 0.1:
            record[2] = "!"
    return {"seed": seed, "steps": draft.steps, "records": records, "letters": "dead"}


def _keep_apart(steps: list[dict[str, Any]]) -> None:
    """Let sub-topologies share nothing: the judge has one task and one stream time for all of them."""
    topology = build(steps).topology
    parts = topology.sub_topologies()
    number = {node.name: part.number for part in parts for node in part.nodes}
    sinks = [node for node in topology.nodes if isinstance(node, Sink) and not node.internal]
    for step, sink in zip([one for one in steps if one["op"] == "to"], sinks, strict=True):
        step["name"] += f"-{number[sink.name]}"
    for step in steps if len(parts) > 1 else ():
        if step.get("kind") == "tick":
            step["kind"] = "tally"
    clocks = [step for step in steps if step.get("kind") == "clock"]
    for step in clocks[1:] if len(parts) > 1 else ():
        step["kind"] = "tally"


def _with_headers(draw: random.Random, records: list[list[Any]]) -> list[list[Any]]:
    """Give records headers, and let the clock go on between them."""
    found: list[list[Any]] = []
    for record in records:
        if draw.random() < 0.3:
            found.append([None, None, None, draw.randint(1, 20)])
        pairs: list[Any] = [
            [draw.choice("xy"), draw.choice((None, "", "1", "2"))] for _ in range(draw.choice((0, 0, 1, 2)))
        ]
        found.append([*record, pairs])
    return found


def _records(draft: Draft) -> list[list[Any]]:
    draw, now, by_time = draft.draw, 0, draft.draw.random() < 0.4
    reads = [step for step in draft.steps if step["op"] in ("stream", "table", "global_table", "versioned")]
    topics = [topic for step in reads for topic in step.get("topics", [step.get("topic", step["name"])])]
    found = []
    for _ in range(draw.randint(5, 25)):
        now += draw.choice((1, 1, 2, 8) if by_time else (0, 1, 1, 2, 3, 8))
        key = draw.choice((None, "k0", "k0", "k1", "k1", "k2", "k3"))
        value = None if draw.random() < 0.1 else draw.randint(0, 20)
        early = 0 if by_time else draw.choice((0, 0, 0, 2, 9))
        found.append([draw.choice(topics), key, value, max(0, now - early)])
    return found
