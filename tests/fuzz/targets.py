"""Every parser of bytes and texts that are not ours: what it is fed with, what it may raise, and how much memory it may
take.

A target is a generator of inputs and a function that reads one. All inputs are bytes, so that one that fails can be
kept in a file. What a target accepts is looked at as well: it must be what its own writer would write.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from semel.admin import progress_import
from semel.config import ClientConfig
from semel.errors import SemelError, from_text
from semel.jaas import parse_jaas
from semel.records import decode, scan
from semel.records.control import marker
from semel.records.decode import portions
from semel.sandbox.background import Background
from semel.settings.properties_file import parse_properties
from semel.spark import source_offset
from semel.spark.task_result import decode_result as read_task_answer
from semel.transaction import transactional_id
from semel.transaction.progress.record import Progress
from semel.transaction.ticket import read_receipt, read_ticket
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.oauth import read_answer
from tests.formats.unit.forms import WRITTEN
from tests.fuzz.mutate import spoilt_bytes, spoilt_json, spoilt_text
from tests.fuzz.options import JAAS, SINKS, SOURCES, read_sink, read_source, spoilt_options
from tests.fuzz.samples import spoilt_batches
from tests.fuzz.wire import every_answer, make_answer, make_frame, make_stream, read_answers, read_frames, read_stream

__all__ = ["TARGETS", "Target"]

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Target:
    """``read`` may raise ``allowed`` and nothing else, and at its peak hold ``slack`` bytes and ``factor`` bytes for
    each byte of the input.

    ``warm`` are inputs after which nothing more is compiled or kept.
    """

    name: str
    make: Callable[[Random], bytes]
    read: Callable[[bytes], None]
    factor: int
    slack: int
    allowed: tuple[type[BaseException], ...] = (SemelError,)
    warm: Callable[[], Sequence[bytes]] = tuple


# ---- records

#: What a reader of records lets a compressed batch grow to.
RECORDS_LIMIT = MIB


def read_records(data: bytes) -> None:
    view = memoryview(data)
    headers = scan(view, where="in-0")
    for header in headers:
        if header.control:
            with suppress(SemelError):
                marker(view, header, where="in-0")
    batches = [header for header in headers if not header.control]
    rows = decode(view, batches, headers=True, limit=RECORDS_LIMIT, where="in-0")
    rows.validate(full=True)
    parts = portions(view, batches, headers=True, limit=RECORDS_LIMIT, where="in-0", portion=max(64, len(data)))
    if sum(len(part) for part, _ in parts) != len(rows):
        raise AssertionError("other rows came by portions than at once")


# ---- JSON


def written(*names: str) -> Sequence[bytes]:
    return [(WRITTEN / name).read_bytes() for name in names]


def json_target(
    name: str,
    copies: Sequence[bytes],
    read: Callable[[bytes], Any],
    write: Callable[[Any], bytes],
    allowed: tuple[type[BaseException], ...] = (SemelError,),
) -> Target:
    """What is accepted is written, read again and written again: the same."""

    def again(data: bytes) -> None:
        text = write(read(data))
        if write(read(text)) != text:
            raise AssertionError(f"what was read as {text[:200]!r} is not written so again")

    return Target(name, lambda random: spoilt_json(random, copies), again, factor=100, slack=256 * KIB, allowed=allowed)


def read_offset(data: bytes) -> source_offset.SourceOffset:
    """As :meth:`semel.spark.source.readers.StreamPlanner` is given it: Spark has read the text before."""
    return source_offset.parse(data.decode("utf-8", "replace"))


def write_any(value: Any) -> bytes:
    if isinstance(value, SemelError):
        return json.dumps([type(value).__name__, value.tag, value.message]).encode()
    return bytes(value.encode())


def read_any_answer(data: bytes) -> Any:
    try:
        listed = json.loads(data)
    except (ValueError, RecursionError):
        listed = None
    return read_task_answer(data) if not isinstance(listed, list) or len(listed) != 3 else _Same(data)


class _Same(bytes):
    def encode(self) -> bytes:
        return self


def read_ticket_also_pickled(data: bytes) -> Any:
    ticket = read_ticket(data)
    if pickle.loads(pickle.dumps(ticket)) != ticket:
        raise AssertionError("a ticket is another one behind pickling")
    return ticket


# ---- a checkpoint, of which one file is spoilt

_SETTINGS = b'{"batchWatermarkMs":0,"batchTimestampMs":1795374242901,"conf":{"spark.sql.shuffle.partitions":"2"}}'
_ENDS = b'{"in":{"0":9,"1":8},"other":{"0":0}}'
_CHECKPOINTS = {
    "offsets/1": tuple(
        b"\n".join(lines)
        for lines in ((b"v1", _SETTINGS, _ENDS), (b"v1", _SETTINGS, b"-"), (b"v2", _SETTINGS, b"left:" + _ENDS))
    ),
    "commits/1": (b'v1\n{"nextBatchWatermarkMs":0}',),
    "sources/0/0": (b'\0v1\n{"in":{"0":3,"1":0}}',),
    "metadata": (b'{"id":"the-query"}',),
}
_SEPARATOR = b"\n--\n"


def spoilt_checkpoint(random: Random) -> bytes:
    """Its files, one behind the other."""
    files = {name: random.choice(samples) for name, samples in _CHECKPOINTS.items()}
    name = random.choice(list(files))
    files[name] = spoilt_bytes(random, _CHECKPOINTS[name])
    return _SEPARATOR.join(files.values())


@cache
def _folder() -> TemporaryDirectory[str]:
    """One for all: Python keeps each name that a path has ever had."""
    directory = TemporaryDirectory(prefix="semel-fuzz-")
    for name in _CHECKPOINTS:
        Path(directory.name, name).parent.mkdir(parents=True, exist_ok=True)
    return directory


def read_checkpoint(data: bytes) -> None:
    for name, content in zip(_CHECKPOINTS, data.split(_SEPARATOR), strict=False):
        Path(_folder().name, name).write_bytes(content)
    repr(progress_import.read(_folder().name))


# ---- texts

_LOGINS = (
    JAAS,
    "org.apache.kafka.common.security.scram.ScramLoginModule required username='bob' password='it''s'"
    ' tokenauth="false" ;',
    'kafkashaded.org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="a"'
    ' clientSecret="b" extension_x="y";',
)
_IDS = (
    "orders",
    "orders.task.2f5b0c5e-0b8f-4f6e-9d2f-6f1c5a0e7b11.12",
    "a.b.unit.2f5b0c5e-0b8f-4f6e-9d2f-6f1c5a0e7b11.0",
)
_PROPERTIES = (
    "security.protocol=SASL_SSL\nsasl.mechanism = PLAIN\n# a remark\nsasl.jaas.config=a \\\n   b\\u0041\n",
    "client.id: x\n!y\nrequest.timeout.ms 5000\r\nkey\\ with\\=blank=\\t\n",
)
_TRACES = (
    "Traceback:\nsemel.errors.Fenced: [SEMEL_FENCED] another owner. Stop.\n\tat x",
    "semel.errors.DataLoss: [SEMEL_X] y",
)


def text_target(
    name: str, given: Sequence[str], pieces: Sequence[str], read: Callable[[str], object], factor: int = 200
) -> Target:
    def make(random: Random) -> bytes:
        return spoilt_text(random, given, pieces).encode("utf-8", "surrogatepass")

    return Target(name, make, lambda data: _ignore(read(data.decode("utf-8", "replace"))), factor, 256 * KIB)


def _ignore(value: object) -> None:
    repr(value)


def read_name(text: str) -> object:
    with suppress(SemelError):
        transactional_id.check_prefix(text)
    name = transactional_id.parse(text)
    if (
        name.kind is not transactional_id.IdKind.OWNER
        and f"{name.prefix}.{name.kind.value}.{name.uuid}.{name.index}" != text
    ):
        raise AssertionError(f"{text!r} is not what {name} says")
    return name


def read_command_config(data: bytes) -> None:
    ClientConfig.parse({**parse_properties(data, "command.properties"), "bootstrap.servers": "localhost:1"})


def _login(text: str) -> object:
    mechanism = {"S": "SCRAM-SHA-512", "O": "OAUTHBEARER"}.get(text.rpartition("LoginModule")[0][-1:], "PLAIN")
    return parse_jaas(text, mechanism)


_TOKENS = (
    b'{"access_token":"a.b.c","expires_in":3600,"token_type":"Bearer"}',
    b'{"access_token":"a","expires_in":"60"}',
    b'{"access_token":"a"}',
)
_MARKS = (*"=;\"'\\ \t\n\0.#:!", "\\u00e4", "\\u12", "\\\n", "required", "LoginModule", "username=", "extension_", "\r")

TARGETS = {
    target.name: target
    for target in (
        # what is decompressed counts by the limit that the reader gives, and Arrow and Python each hold it once or
        # twice
        Target("records", spoilt_batches, read_records, factor=200, slack=6 * RECORDS_LIMIT),
        Target("answers", make_answer, read_answers, factor=200, slack=256 * KIB, warm=every_answer),
        # the buffer of a frame is made before it is there
        Target("frames", make_stream, read_stream, factor=200, slack=65 * MIB),
        Target("proxy", make_frame, read_frames, factor=200, slack=256 * KIB, allowed=(ConnectionError, ValueError)),
        json_target(
            "offsets",
            written("source-offset.v1", "source-offset-initial.v1"),
            read_offset,
            lambda offset: source_offset.dump(offset).encode(),
        ),
        json_target(
            "progress",
            written("progress.v1", "progress-groups.v1"),
            lambda data: Progress.decode(data, "p-0 offset 1"),
            Progress.encode,
        ),
        json_target("tickets", written("ticket.v1"), read_ticket_also_pickled, write_any),
        json_target("prepared", written("prepared.v1"), Prepared.parse, lambda prepared: str(prepared).encode()),
        json_target("receipts", written("receipt.v1"), read_receipt, write_any),
        json_target("task-answers", written("answer.v1", "answer-error.v1"), read_any_answer, write_any),
        json_target(
            "left-running",
            written("left-running.v1"),
            Background.decode,
            Background.encode,
            (ValueError, KeyError, TypeError),
        ),
        # Python interns the parts of paths, in a table that now and then doubles
        Target("checkpoints", spoilt_checkpoint, read_checkpoint, factor=100, slack=4 * MIB),
        Target(
            "token-answers",
            lambda random: spoilt_json(random, _TOKENS),
            lambda data: _ignore(read_answer(data, "here")),
            100,
            256 * KIB,
        ),
        Target("sink-options", lambda random: spoilt_options(random, SINKS), read_sink, factor=400, slack=512 * KIB),
        Target(
            "source-options", lambda random: spoilt_options(random, SOURCES), read_source, factor=400, slack=512 * KIB
        ),
        text_target("jaas", _LOGINS, _MARKS, _login, factor=400),
        text_target("naming", _IDS, (*".-0f", ".task.", ".unit.", "9" * 5000, "٣", "\n"), read_name),
        text_target("traces", _TRACES, ("[SEMEL_", "semel.errors.", "]", "\n", "Fenced: "), from_text),
        Target(
            "command-config",
            lambda random: spoilt_text(random, _PROPERTIES, (*_MARKS, "9" * 50, JAAS)).encode("utf-8", "surrogatepass"),
            read_command_config,
            factor=400,
            slack=512 * KIB,
        ),
    )
}
