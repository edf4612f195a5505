"""Output topics that were deleted and created again between two batches.

The rows of the batches before are gone with the old topic, and the checkpoint says that they are written. The progress
record has the id of each output topic of its batch. A topic that is new, that the options leave out, or that the record
does not name (another version of semel, or an operator wrote it) is not compared. Batch jobs with a new version are not
refused: their rows build on none that were there.
"""

from __future__ import annotations

import hashlib
import logging
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from semel.errors import DataLoss
from semel.read.ranges import id_text
from semel.spark.sink.progress_mismatch import is_given
from semel.strict_json import write_object
from semel.transaction.progress.record import Progress

__all__ = ["OutputCheck", "check_job_outputs", "output_ids"]

log = logging.getLogger("semel.spark")

_TAG = "OUTPUT_RECREATED"


class _Topic(Protocol):
    @property
    def id(self) -> UUID: ...


def output_ids(topics: Mapping[str, _Topic]) -> dict[str, str]:
    """Return the ids as the progress record keeps them."""
    return {name: id_text(topic.id) for name, topic in sorted(topics.items())}


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """Compare the output topics of a query with those that its progress names.

    ``override`` is what the user gave as tokens, if any; ``progress_topic`` is for the words.
    """

    progress: Progress | None
    prefix: str
    progress_topic: str
    override: str | None

    def check(self, ids: Mapping[str, str]) -> None:
        """Raise :class:`DataLoss` for a topic that was created again, unless a token says to go on.

        ``ids`` are the topics' own, as :func:`output_ids` gives them.
        """
        again = _created_again(self.progress, ids)
        if not again:
            return
        token = self.token(again)
        if is_given(token, self.override):
            log.warning("%s. The query resumes without those rows, as onProgressMismatch says.", _named(again))
            return
        both = f"{token},{self.override}" if self.override is not None else token
        reset = f"semel progress reset {shlex.quote(self.prefix)} --scope query"
        raise DataLoss(
            f"{_named(again)} since the last batch of {self.prefix!r}: what it had written there is gone. Nothing was"
            f" written. (1) To go on without those rows: onProgressMismatch=checkpoint:{both}. (2) To write everything"
            f" again, to all its topics: `{reset} --progress-topic {shlex.quote(self.progress_topic)}`, then an empty"
            " checkpoint and startingOffsets=earliest.",
            tag=_TAG,
        )

    def token(self, again: Mapping[str, tuple[str, str]]) -> str:
        """Return what ``onProgressMismatch=checkpoint:<token>`` must say. It fits these topics until the next commit.

        The batch is not in it: one that is skipped writes no progress, and the next one is asked about the same topics.
        """
        record = self.progress.encode() if self.progress is not None else b"none"
        ids = write_object({name: list(pair) for name, pair in again.items()})
        return hashlib.sha256(b"\n".join([record, ids])).hexdigest()[:16]


def check_job_outputs(progress: Progress | None, ids: Mapping[str, str], prefix: str, version: int) -> None:
    """Raise :class:`DataLoss` where a batch job is about to be skipped, and the topic that has its rows is gone."""
    again = _created_again(progress, ids)
    if again:
        raise DataLoss(
            f"version {version} of {prefix!r} is committed, but {_named(again)} since: its rows are gone. Nothing was"
            f" written. (1) To write them again: `semel progress reset {shlex.quote(prefix)} --scope batch`, then run"
            " the job. (2) To leave them out: go on with the next version.",
            tag=_TAG,
        )


def _created_again(progress: Progress | None, now: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the former and the present id of each topic that has another one."""
    known = progress.outputs if progress is not None else {}
    return {name: (id, now[name]) for name, id in sorted(known.items()) if name in now and now[name] != id}


def _named(again: Mapping[str, tuple[str, str]]) -> str:
    ids = ", ".join(f"{name!r} (id {before}, now {now})" for name, (before, now) in again.items())
    return f"output topic {ids} was deleted and created again"
