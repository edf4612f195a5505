"""The forms that outlive a process or travel between processes: for each a writer of today, a reader, and what its
written copy says.

A copy in ``written/`` is named ``<form>.v<version>`` and was written once, by the version of semel that made the form.
It is never written again: a form that changes gets another version, a copy of its own, and keeps the old reader.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast
from uuid import UUID

from semel import __version__
from semel.errors import ConfigError, SemelError
from semel.mirror.offsets import segments
from semel.mirror.positions import Positions
from semel.sandbox import background
from semel.spark import source_offset, task_result, version_guard
from semel.spark.sink.micro_batch import PlannedBatch, SourceBatch
from semel.spark.sink.progress_mismatch import Mismatch
from semel.spark.sink.reconcile import reconcile
from semel.spark.source_offset import SourceOffset, TopicOffset
from semel.streams.state.backend import Position
from semel.transaction import ticket, transactional_id
from semel.transaction.progress import record
from semel.transaction.progress.record import KafkaSource, OpaqueSource, Progress, RecordedOutcome, TopicEnd
from semel.transaction.ticket import Receipt, Ticket, TicketTopic, Written
from semel.transaction.transactional_id import IdKind, Name
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.api.transactions import Identity

MIRRORED = Positions(
    "cluster",
    "default.",
    {"orders": "AAAAAAAAAAAAAAAAAAAAAQ"},
    {"orders": ("A.orders", "AAAAAAAAAAAAAAAAAAAAAg")},
    {},
    7,
)
SEGMENT_RUNS = [40, 12, 500, 1, 1, 20]
STORE_POSITION = Position("bW9kZWwtb2YtYW4taWQtMQ", 4711, 1_700_000_000_000, 1_700_000_000_500)
STORE_POSITION_2 = replace(STORE_POSITION, holds="a count by key (string)")
WRITTEN = Path(__file__).parent / "written"
#: What the copies say in the place of the version of semel that wrote them: those that name one are read by that very
#: version only.
MADE_BY = b'"semel":"0.1.0"'
#: A version that nobody has.
OTHER = "0.0.7"


def today(text: bytes) -> bytes:
    """A copy as if this version of semel had written it."""
    return text.replace(MADE_BY, f'"semel":"{__version__}"'.encode())


@dataclass(frozen=True)
class Form:
    """One form, in version ``newest``: how today's semel writes the sample, how it reads a copy, and what the copy of
    each version says.
    """

    name: str
    newest: int
    write: Callable[[], bytes]
    read: Callable[[bytes], object]
    says: dict[int, object]


def refused(text: bytes) -> tuple[str, str]:
    """A pickle of ours that another version of semel made is read as far as to be refused."""
    found = pickle.loads(text)
    try:
        found.unpack()
    except ConfigError as error:
        return type(found).__name__, error.tag
    raise AssertionError("it was opened")


def pickled(value: object) -> bytes:
    return pickle.dumps(value, 4)


def token(planned: PlannedBatch) -> bytes:
    decided = reconcile(planned, PROGRESS)
    assert isinstance(decided, Mismatch)
    return decided.token.encode()


def answer(given: Receipt | SemelError) -> bytes:
    return bytes(task_result.encode_result(given).column(0)[0].as_py())


QUERY = "2f5b0c5e-0b8f-4f6e-9d2f-6f1c5a0e7b11"
TOPIC_ID = "AbCdEfGhIjKlMnOpQrStUv"
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
PROGRESS = Progress(
    query=QUERY,
    run="7c7f5a1e-47a9-4d0c-9a63-0d3f0d3c8a52",
    batch=41,
    sources=(
        KafkaSource(CLUSTER, {"in": TopicEnd(TOPIC_ID, {0: 42, 10: 7}, {0: 5, 10: 0})}, "orders"),
        KafkaSource(CLUSTER, {"unknown-beginning": TopicEnd(TOPIC_ID, {0: 1})}),
        OpaqueSource('{"logOffset":3}', "files"),
    ),
    wrote={"out": {0: (100, 141), 3: (9, 9)}},
    moved="orders-eu",
    extra={"from a later version": {"kept": [1, None]}},
)
WITH_GROUPS = Progress(batch=41, groups={"orders": {"in": (0, 10), "ä": (3,)}, "other": {"in": (1,)}})
WITH_OUTPUTS = Progress(batch=41, outputs={"out": TOPIC_ID, "ä": "AbCdEfGhIjKlMnOpQrStUw"})
DECIDED = RecordedOutcome(4001, 7, True)
OFFSET_1 = SourceOffset(
    CLUSTER,
    {
        "in": TopicOffset(TOPIC_ID, {0: 5, 2: 0, 10: 0}, {0: 42, 2: 0, 10: 7}),
        "ä": TopicOffset(TOPIC_ID, {0: 1}, {0: 2}),
    },
)
OFFSET = SourceOffset(
    CLUSTER,
    {
        "in": TopicOffset(TOPIC_ID, {0: 5, 2: 0, 10: 0}, {0: 42, 2: 0, 10: 7}, epochs={0: 3, 10: 0}),
        "ä": TopicOffset(TOPIC_ID, {0: 1}, {0: 2}),
    },
)
IDENTITY = Identity("orders-out", 4001, 7)
TICKET = Ticket(
    3,
    IDENTITY,
    (("out", 0), ("out", 2), ("ä", 1)),
    {"out": TicketTopic(UUID(int=5), 4, 1_048_588), "ä": TicketTopic(UUID(int=6), 2, 900)},
)
RECEIPT = Receipt(3, IDENTITY, {("out", 0): Written(10, 12, 3, 120), ("out", 2): Written(7, 7, 1, 70)}, 8, 1, 0)
PREPARED = Prepared(
    CLUSTER,
    f"orders.unit.{QUERY}.0",
    4001,
    7,
    {("out", 0): (100, 42), ("out", 10): (7, 1), ("ä", 2): (0, 3)},
    {"out": TOPIC_ID, "ä": TOPIC_ID},
    1_795_700_000_123,
    1_795_700_900_123,
)
ENLISTING = Progress(query=QUERY, batch=41, enlisted=(PREPARED,))
START, END = (KafkaSource(CLUSTER, {"in": TopicEnd(TOPIC_ID, {0: end}, {0: 0})}) for end in (90, 130))
PLANNED = PlannedBatch(QUERY, 42, False, (SourceBatch(None, START, END, None),))
FOREIGN = Ticket(-1, Identity("", -1, -1), (), {}, OTHER)
INITIAL = source_offset.initial(CLUSTER, {"in": (TOPIC_ID, {0: 5, 1: 0})})
SAID = ('a "quoted"\nline, ä',)
SHOWN = (f"[SEMEL_SPECIAL] {SAID[0]}",)
NAME = f"orders.out.task.{QUERY}.12"
BROKER = background.Background("127.0.0.1:9092", "4.3.1", [4711], "2026-11-21T10:00:00+00:00", "/var/tmp/broker", False)


def _sealed(name: str) -> Form:
    made = getattr(version_guard, name)(OTHER, b"what only that version can read")
    return Form(
        f"sealed-{name.removeprefix('Sealed').lower()}",
        1,
        partial(pickled, made),
        refused,
        {1: (name, "OTHER_VERSION")},
    )


def segment() -> bytes:
    (text,) = segments.write_forms(MIRRORED, {("orders", 3): segments.Runs.unpacked(SEGMENT_RUNS)})
    return text


def read_segment(text: bytes) -> dict[tuple[str, int], list[int]]:
    return {p: runs.packed() for p, runs in segments.read_form(text, MIRRORED, "mirror.A.B").runs.items()}


FORMS = [
    Form(
        "progress",
        record.VERSION,
        PROGRESS.encode,
        partial(Progress.decode, where="semel-progress-3 offset 7"),
        {1: PROGRESS},
    ),
    Form(
        "progress-groups",
        record.VERSION,
        WITH_GROUPS.encode,
        partial(Progress.decode, where="semel-progress-3 offset 7"),
        {1: WITH_GROUPS},
    ),
    Form(
        "progress-outputs",
        record.VERSION,
        WITH_OUTPUTS.encode,
        partial(Progress.decode, where="semel-progress-3 offset 7"),
        {1: WITH_OUTPUTS},
    ),
    Form(
        "progress-enlisting",
        record.ENLISTING_VERSION,
        lambda: ENLISTING.encode(),
        partial(Progress.decode, where="semel-progress-3 offset 7"),
        {2: ENLISTING},
    ),
    Form(
        "progress-key",
        1,
        partial(record.progress_key, "orders-out", "query"),
        json.loads,
        {1: ["orders-out", {"scope": "query"}]},
    ),
    Form("mirror-segment", segments.VERSION, segment, read_segment, {1: {("orders", 3): SEGMENT_RUNS}}),
    Form("claim-key", 1, partial(record.claim_key, "orders-out"), json.loads, {1: ["orders-out", {"scope": "claim"}]}),
    Form("look-key", 1, partial(record.look_key, "orders-out"), json.loads, {1: ["orders-out", {"scope": "look"}]}),
    Form(
        "claim",
        record.CLAIM_VERSION,
        partial(record.claim_value, 40),
        partial(record.claimed_from, where="semel-progress-3 offset 9"),
        {1: 0, 2: 40},
    ),
    Form("look", record.VERSION, lambda: record.LOOK, json.loads, {1: {"v": 1}}),
    Form(
        "decided-key",
        2,
        partial(record.decided_key, "orders-out", "0f9c"),
        json.loads,
        {1: ["orders-out", {"scope": "decided"}], 2: ["orders-out", {"scope": "decided", "writer": "0f9c"}]},
    ),
    Form(
        "decided",
        record.VERSION,
        DECIDED.encode,
        partial(RecordedOutcome.decode, where="semel-progress-3 offset 8"),
        {1: DECIDED},
    ),
    Form(
        "source-offset",
        source_offset.VERSION,
        lambda: source_offset.dump(OFFSET).encode(),
        lambda text: source_offset.parse(text.decode()),
        {1: OFFSET_1, 2: OFFSET},
    ),
    Form(
        "source-offset-initial",
        source_offset.VERSION,
        lambda: source_offset.dump(INITIAL).encode(),
        lambda text: source_offset.parse(text.decode()),
        {1: INITIAL, 2: INITIAL},
    ),
    Form("ticket", ticket.VERSION, TICKET.encode, ticket.read_ticket, {1: TICKET}),
    Form(
        "ticket-pickled", ticket.VERSION, partial(pickled, FOREIGN), lambda text: pickle.loads(text).version, {1: OTHER}
    ),
    Form("prepared", 1, lambda: str(PREPARED).encode(), Prepared.parse, {1: PREPARED}),
    Form("receipt", ticket.VERSION, RECEIPT.encode, ticket.read_receipt, {1: RECEIPT}),
    Form("answer", task_result.VERSION, partial(answer, RECEIPT), task_result.decode_result, {1: RECEIPT}),
    Form(
        "answer-error",
        task_result.VERSION,
        partial(answer, ConfigError(*SAID, tag="SPECIAL")),
        lambda text: cast(SemelError, task_result.decode_result(text)).args,
        {1: SHOWN},
    ),
    *map(_sealed, ("SealedStage", "SealedWriting", "SealedReader", "SealedPartition")),
    Form("mismatch-token", 1, partial(token, PLANNED), bytes.decode, {1: "a99de25e6584de75"}),
    Form(
        "transactional-id",
        1,
        lambda: NAME.encode(),
        lambda text: transactional_id.parse(text.decode()),
        {1: Name("orders.out", IdKind.TASK, QUERY, 12)},
    ),
    Form("store-position", 2, STORE_POSITION_2.encode, Position.parse, {1: STORE_POSITION, 2: STORE_POSITION_2}),
    Form("left-running", background.VERSION, BROKER.encode, background.Background.decode, {1: BROKER}),
]
