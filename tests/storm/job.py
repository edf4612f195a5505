"""What one query of the storm is told, and what its output must be by a plain recount of its source."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.spark.support.json_argument import Argument

#: A second of the events' time passes with each row. The watermark is further behind than any storm is long, so that no
#: row is late, whichever partition comes first: what must come out depends on the source alone.
WINDOW_S, WATERMARK_S = 60, 7 * 24 * 3600
EPOCH_S = 1_700_000_000
USERS = 5
#: Each query by its kind. ``keyed`` and ``free`` copy, by key and to anywhere; ``counted`` keeps state.
STATELESS = ("keyed", "free")
KINDS = (*STATELESS, "counted")


@dataclass(frozen=True)
class Job(Argument):
    """``servers`` are the proxy's.

    The query ends when ``stop`` exists. Outputs and checkpoints bear the names of their queries.
    """

    kind: str
    servers: str
    source: str
    checkpoint: str
    stop: str
    per_batch: int

    @property
    def target(self) -> str:
        """The output topic, and the prefix."""
        return f"storm-{self.kind}"

    @property
    def group(self) -> str:
        """Where the position is shown."""
        return f"storm-{self.kind}-group"


def row(number: int, lot: int) -> tuple[str, str]:
    """Key and value of a row of the source: its user is its key, so that the rows of a user are in one partition, in
    order.
    """
    user = f"u{number * 7919 % USERS}" if number % 3 else f"u{number % USERS}"
    return user, json.dumps({"id": number, "lot": lot, "user": user, "at": EPOCH_S + number})


def wrong_counts(source: Iterable[str], output: Sequence[dict[str, Any]]) -> list[str]:
    """What is wrong with the output of ``counted``, in words; ``source`` are its values, those of a user in their
    order.

    Each row of the output says how many rows of a user it has seen in a window, and the sum of their numbers. Wherever
    the batches ended, the first n rows make one sum; n grows from row to row; the last one has seen all. A state that
    lost or kept a batch makes another sum.
    """
    sums: dict[tuple[int, str], list[int]] = defaultdict(list)
    for value in map(json.loads, source):
        group = sums[value["at"] - value["at"] % WINDOW_S, value["user"]]
        group.append(value["id"] + (group[-1] if group else 0))
    wrong: list[str] = []
    seen: dict[tuple[int, str], int] = defaultdict(int)
    for each in sorted(output, key=lambda record: (int(record["partition"]), int(record["offset"]))):
        value = json.loads(each["value"])
        of, n = (value["w"], value["user"]), value["n"]
        where = f"{each['topic']}-{each['partition']}@{each['offset']} says {each['value']}"
        right = sums.get(of, [])
        if n > len(right) or value["ids"] != right[n - 1]:
            wrong.append(f"{where}, and the source says {right[:n][-1:]} of {len(right)}")
        elif n <= seen[of]:
            wrong.append(f"{where}, behind one that had seen {seen[of]}")
        seen[of] = max(seen[of], n)
    wrong += [
        f"window {group}: {seen[group]} of {len(all_sums)} rows were counted"
        for group, all_sums in sums.items()
        if seen[group] != len(all_sums)
    ]
    return wrong
