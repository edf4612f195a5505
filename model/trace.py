"""A trace in words, one line a move: who, what, the answer, and the steps of ``semel/steps.py`` that the owner passed
by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from model.broker import said
from model.faults import NEVER, Move
from model.progress import reading
from model.requests import (
    NAMES,
    OFFSETS,
    PENDING,
    PROGRESS,
    Add,
    Choose,
    Claim,
    CommitBatch,
    Decide,
    Describe,
    End,
    Identity,
    Init,
    LogBatch,
    MarkerBehind,
    OpenRows,
    Produce,
    ReadToHigh,
    ReadToStable,
    SettledPosition,
    StableOffset,
    WriteMarker,
)

__all__ = ["lines", "words"]

_ANSWERS = {
    0: "OK",
    47: "47 INVALID_PRODUCER_EPOCH",
    48: "48 INVALID_TXN_STATE",
    49: "49 INVALID_PRODUCER_ID_MAPPING",
    90: "90 PRODUCER_FENCED",
}


def lines(trace: Sequence[Move]) -> Iterator[str]:
    """Yield the moves, numbered. Faults are marked with ``!``; steps stand at the end in capitals."""
    for number, move in enumerate(trace, 1):
        steps = " ".join(step.name for step in move.steps)
        yield f"{number:4} {'!' if move.fault else ' '} {move.actor:<11} {words(move):<78} {steps}".rstrip()


def words(move: Move) -> str:
    """Return what happened, without the owner and the steps."""
    text = move.what if isinstance(move.what, str) else _WORDS[type(move.what)](move.what)
    answer = _answer(move.what, move.reply)
    return "".join([text, f", {move.note}" if move.note else "", f": {answer}" if answer else ""])


def _answer(request: Any, reply: Any) -> str:
    if reply is None:
        return ""
    if reply == NEVER:
        return NEVER
    if isinstance(reply, Identity):
        return said(reply)
    if isinstance(request, Describe):
        known, ongoing = reply
        return f"ongoing on {_names(ongoing)}" if ongoing else "nothing ongoing" if known else "not known"
    if isinstance(request, End):
        code, following = reply
        return f"OK, go on as {said(following)}" if following is not None else _ANSWERS[code]
    if isinstance(request, OpenRows):
        return ", ".join(map(said, reply)) or "nothing"
    if isinstance(request, (Claim, ReadToStable, ReadToHigh, SettledPosition)) and reply != PENDING:
        return _log(reply)
    if (
        isinstance(reply, int)
        and not isinstance(reply, bool)
        and isinstance(request, (Add, Produce, WriteMarker, Decide))
    ):
        return _ANSWERS[reply]
    return str(reply)


def _log(log: tuple[Any, ...]) -> str:
    known = reading(log)
    newest = (
        f"committed up to row {known.newest.position.end} by {said(known.newest.identity)}"
        if known.newest
        else "nothing committed"
    )
    return f"{newest}, open {', '.join(said(seen.identity) for seen in known.open)}" if known.open else newest


def _names(partitions: Sequence[int]) -> str:
    return ", ".join(NAMES[index] for index in partitions)


def _produced(request: Produce) -> str:
    what: Any = request.value
    if request.partition == PROGRESS:
        return f"progress up to row {what.end} as {said(request.identity)}"
    if request.partition == OFFSETS:
        return f"TxnOffsetCommit of {what} as {said(request.identity)}"
    return f"rows {', '.join(map(str, what))} to {NAMES[request.partition]} as {said(request.identity)}"


_WORDS: dict[type, Callable[[Any], str]] = {
    Describe: lambda _: "DescribeTransactions",
    Init: lambda _: "InitProducerId",
    Add: lambda request: f"AddPartitionsToTxn of {_names(request.partitions)} as {said(request.identity)}",
    End: lambda request: f"EndTxn({request.decision}) as {said(request.identity)}",
    Produce: _produced,
    OpenRows: lambda request: f"what is open on {NAMES[request.partition]}",
    MarkerBehind: lambda request: (
        f"the marker behind the rows of {said(request.identity)} on {NAMES[request.partition]}"
    ),
    WriteMarker: lambda request: (
        f"WriteTxnMarkers: {request.decision} of {said(request.identity)} on {NAMES[request.partition]}"
    ),
    StableOffset: lambda _: "OffsetFetch, require_stable",
    Claim: lambda _: "claim, and read up to it",
    ReadToStable: lambda _: "read up to the last stable offset",
    ReadToHigh: lambda _: "read up to a high watermark",
    SettledPosition: lambda _: "claim, and read up to it, until all is settled",
    Decide: lambda request: f"writes down that {said(request.identity)} was to {request.decision}",
    Choose: lambda _: "as it happens",
    LogBatch: lambda request: f"Spark logs batch {request.number}, rows {request.start} to {request.end}",
    CommitBatch: lambda request: f"Spark logs that batch {request.number} is done",
}
