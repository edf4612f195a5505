"""What must be true of Spark queries when a storm is over, seen by a client that is not ours and goes around the proxy.

Each check gives what is wrong, in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from model.replay import Refused, replay
from semel.admin.txn import list_transactions
from semel.config import ClientConfig
from semel.errors import SemelError
from semel.testing.history import check
from semel.testing.records import read
from semel.wire.client import Client
from tests.spark.support.topics_and_drivers import group_offsets, progress, source_ends
from tests.storm.job import Job, wrong_counts
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.storm.query_storm import QueryKeeper
    from tests.storm.supervisor import Keeper

__all__ = ["open_transactions", "steps_refused", "verdict"]

_SHOWN = 10
_READING_S = 120.0
_ENDING_S = 60.0


def verdict(servers: str, keepers: Sequence[QueryKeeper]) -> list[str]:
    """Everything that is wrong; nothing if all is as it must be."""
    problems = list(open_transactions(servers))
    for keeper in keepers:
        try:
            problems += [
                f"{keeper.job.kind}: {wrong}"
                for wrong in (*_output(servers, keeper.job), *_positions(servers, keeper.job))
            ]
        except SemelError as error:  # an open transaction hides what is behind it
            problems.append(f"{keeper.job.kind}: it could not be checked: {error}")
        problems += [f"{keeper.job.kind}: {wrong}" for wrong in steps_refused(keeper)]
    return problems


def _output(servers: str, job: Job) -> Iterator[str]:
    """Nothing lost, doubled or torn; in order where that is promised; state that belongs to the output."""
    if job.kind == "counted":
        source = read(servers, [job.source], {"value": "value"}, timeout=_READING_S).sort_by(
            [("partition", "ascending"), ("offset", "ascending")]
        )
        wrong = wrong_counts(
            source["value"].to_pylist(), read(servers, [job.target], {"value": "value"}, timeout=_READING_S).to_pylist()
        )
        yield from wrong[:_SHOWN]
        if len(wrong) > _SHOWN:
            yield f"and {len(wrong) - _SHOWN} more"
        return
    if job.kind == "keyed":
        history = check(servers, job.target, source=job.source, id="json:$.id", timeout=_READING_S)
    else:  # rows that may go anywhere keep no order
        ids = read(servers, [job.source], {"id": "json:$.id"}, timeout=_READING_S)["id"].to_pylist()
        history = check(servers, job.target, expected=ids, id="json:$.id", timeout=_READING_S)
    if not history.exact:
        yield f"not exactly once\n{history}"


def open_transactions(servers: str) -> Iterator[str]:
    """None that is open; one that is being ended gets its time."""
    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
        try:
            wait_for(lambda: not list_transactions(client), "the end of all transactions", _ENDING_S)
        except AssertionError:
            for one in list_transactions(client):
                yield f"the transaction of {one.transaction.transactional_id} is open: {one.transaction}"


def _positions(servers: str, job: Job) -> Iterator[str]:
    """Progress and group stand at the end of the source."""
    ends = source_ends(servers, job.source)
    newest = progress(servers, job.target)
    recorded = {int(p): end for p, end in newest["sources"][0]["topics"][job.source]["end"].items()} if newest else None
    shown = group_offsets(servers, job.group, job.source, ends)
    if not recorded == shown == ends:
        yield f"the progress says {recorded}, the group {shown}, and the source ends at {ends}"


def steps_refused(keeper: Keeper) -> Iterator[str]:
    """Each step of all its processes is one that the model allows, in the order of the log."""
    passed = keeper.plan.passed()
    if not passed:
        yield "no process has logged a step: nothing can be replayed"
        return
    try:
        replay(passed)
    except Refused as refused:
        yield str(refused)
