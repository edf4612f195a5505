"""A batch that is refused (PROTOCOL 6): what differs, which rows would be repeated or missed, the ways out.

The message is a block of lines, indented as :func:`semel.errors.from_text` reads them back from Spark's text. The token
of the way out is a digest of the progress and of this batch, so it is spent as soon as either moves. Not promised:
ranges where offsets cannot be compared (another cluster, a topic that was created again, sources that are not
semel's). The text says so.

A batch is also refused where an output topic was deleted and created again since the batch before: those rows are gone,
and the checkpoint says that they are written. The progress record has the id of each output topic of its batch. A topic
that is new, that the options leave out, or that the record does not name is not compared.
"""

from __future__ import annotations

import hashlib
import logging
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from semel.errors import DataLoss
from semel.read.ranges import id_text
from semel.spark.sink.differences import NAMED, Difference, Rows, ranges_text, source_label
from semel.spark.sink.micro_batch import PlannedBatch
from semel.strict_json import write_object
from semel.transaction.progress.record import KafkaSource, Progress, Source

__all__ = ["Mismatch", "OutputCheck", "check_job_outputs", "is_given", "output_ids"]

log = logging.getLogger("semel.spark")

_RECREATED = "OUTPUT_RECREATED"

#: The start of each line after the first.
_LINE = "\n    "
#: The way out if the progress is right.
_RESUME = "start with a new, empty checkpoint (this one holds the refused batch), and give"
_AS_WRITTEN = "to resume from the progress, with nothing repeated or missed,"
#: A progress that was set by hand need not be where the written rows end.
_AS_SET = (
    "to resume from the progress, which was set by hand (rows written after it are written again, and unread rows"
    " before it are skipped),"
)


def is_given(token: str, override: str | None) -> bool:
    """Return whether a user has given this token: two refusals of one batch want two, with a comma between."""
    return override is not None and token in override.split(",")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A batch that the sink refuses, because only a person can say what is right.

    ``override`` is the token that the user gave, if any. ``prefix`` is for the message.
    """

    planned: PlannedBatch
    progress: Progress | None
    differences: tuple[Difference, ...]
    prefix: str
    override: str | None = field(default=None, compare=False)

    @property
    def token(self) -> str:
        """A digest of P and N: ``onProgressMismatch=checkpoint:<token>`` needs it to run the batch all the same.

        The batch's own offsets are in it too: a token must not fit other data that is planned under the same number.
        """
        planned = [
            Progress(query=self.planned.query, batch=self.planned.batch, sources=side).encode()
            for side in (self.planned.starts, self.planned.ends)
        ]
        parts = [self.progress.encode() if self.progress is not None else b"none", *planned]
        return hashlib.sha256(b"\n".join(parts)).hexdigest()[:16]

    @property
    def repeated(self) -> tuple[Rows, ...]:
        """The rows that running the batch as it is would write again."""
        return tuple(one.repeated for one in self.differences if one.repeated is not None)

    @property
    def missed(self) -> tuple[Rows, ...]:
        """The rows that running the batch as it is would never write."""
        return tuple(one.missed for one in self.differences if one.missed is not None)

    @property
    def tag(self) -> str:
        """The tag of its error."""
        return "DATA_LOSS" if any(one.lost for one in self.differences) else "PROGRESS_MISMATCH"

    @property
    def reason(self) -> str:
        """The findings, and what running the batch as it is would do, in one line."""
        effects = ". ".join(_effects(self.repeated, self.missed))
        return f"{self._head}{_listed(self.differences)}. {effects}.{' ' + self._state if self._state else ''}"

    @property
    def message(self) -> str:
        """The message of a refused batch: what was found, what would be repeated and missed, and the ways out."""
        spent = ""
        if self.override is not None and not is_given(self.token, self.override):
            spent = f" The given token {self.override!r} is for another batch or another progress record."
        more = [f"and {len(self.differences) - NAMED} more"] if len(self.differences) > NAMED else []
        return _LINE.join(
            [
                f"{self._head}. Nothing was written.{spent}",
                *(finding.text for finding in self.differences[:NAMED]),
                *more,
                *_effects(self.repeated, self.missed),
                *([self._state] if self._state else []),
                "Ways out:",
                *(f"({number}) {way}." for number, way in enumerate(self.ways_out, 1)),
            ]
        )

    @property
    def _head(self) -> str:
        return (
            f"batch {self.planned.batch} of query {self.planned.query} does not continue from the progress of"
            f" transactionalIdPrefix {self.prefix!r}: {self._found()}"
        )

    @property
    def _state(self) -> str:
        if not self.planned.stateful or self.progress is None or self._has_its_state:
            return ""
        return (
            "This query keeps state (sums, windows, rows of a join), and this checkpoint does not hold the state for"
            " that progress. Sums would start at a wrong value, in a new checkpoint at 0, and replace the right ones."
        )

    def error(self) -> DataLoss:
        """Return the exception with this message."""
        return DataLoss(self.message, tag=self.tag)

    @property
    def ways_out(self) -> list[str]:
        """The ways out for the user, one sentence each."""
        if self.progress is None:
            return self._ways_without_progress()
        theirs = _topics(self.progress.sources)
        ours = _topics([*self.planned.starts, *self.planned.ends])
        strange = bool(self.progress.query != self.planned.query and ours and theirs and not ours & theirs)
        return [
            *self._ways_of_another_query(theirs, strange=strange),
            *self._ways_to_go_on(self.progress, strange=strange),
            self._by_hand + _by_hand_does(self.repeated, self.missed),
            f"`semel progress reset {shlex.quote(self.prefix)}` forgets the progress. Then start with a new,"
            f" empty checkpoint (this one holds the refused batch), which begins at startingOffsets{self._restarted}",
        ]

    @property
    def _by_hand(self) -> str:
        return f"onProgressMismatch=checkpoint:{self.token} runs this batch once, as the checkpoint has it"

    @property
    def _restarted(self) -> str:
        if self.planned.stateful:
            return (
                ": with earliest, the state is built again from all rows that are still there, and their output is"
                " written again"
            )
        return ": all rows that it reads from there are written, also those that were written before"

    def _ways_without_progress(self) -> list[str]:
        return [
            "if you changed the prefix, and no sink uses the old one any more:"
            f" `semel progress rename <old> {shlex.quote(self.prefix)}`",
            f"{self._by_hand}. Use it only if every earlier batch was written another way, or had no rows and was not"
            " passed to the sink; rows that were not written are lost. foreachBatch must call the sink for every"
            " batch, empty or not",
            "start with a new, empty checkpoint, which begins at startingOffsets (earliest: all rows that are still"
            " there). Use it if nothing was written yet; rows that were written are written again",
        ]

    def _ways_of_another_query(self, theirs: set[str], *, strange: bool) -> list[str]:
        if not strange:
            return []
        return [
            f"if the progress belongs to another query (it reads {', '.join(sorted(theirs))}), give this one its own"
            " transactionalIdPrefix: the other ways out would change that query"
        ]

    def _ways_to_go_on(self, progress: Progress, *, strange: bool) -> list[str]:
        if strange:
            return []
        if self.planned.stateful:  # no other checkpoint has its state
            if progress.batch is None:
                return []
            return [
                f"if you have a copy of the checkpoint of query {progress.query} that has reached batch"
                f" {progress.batch} (its folder offsets has a file of that name before you start it), start from it"
            ]
        if any(one.apart for one in self.differences):
            return []
        where = _AS_SET if progress.batch is None else _AS_WRITTEN
        by_source = any(one.by_source for one in self.differences)
        return [f"{where} {_RESUME} {_starting_offsets(progress, by_source=by_source)}"]

    @property
    def _has_its_state(self) -> bool:
        """True if this checkpoint holds the state that belongs to the progress."""
        progress, batch = self.progress, self.planned.batch
        assert progress is not None
        at_it = progress.batch is not None and batch in (progress.batch, progress.batch + 1)
        return progress.query == self.planned.query and at_it

    def _found(self) -> str:
        progress, query, batch = self.progress, self.planned.query, self.planned.batch
        if progress is None:
            return (
                f"the checkpoint plans batch {batch}, and the sink has no progress. The sink may be new in this query;"
                " its progress may be lost, reset, or under another prefix; or earlier batches were written without it"
            )
        whose = "the same query" if progress.query == query else f"query {progress.query}"
        reached = (
            f"is batch {progress.batch} of {whose}"
            if progress.batch is not None
            else "was set by hand (`semel progress reset --to-offsets`, or `import`)"
        )
        state = ""
        if progress.query == query and progress.batch is not None and batch > progress.batch + 1:
            state = (
                "; the sink was not called for the batches between, or wrote them elsewhere (foreachBatch must call"
                " it for every batch, empty or not)"
            )
        elif progress.query == query and progress.batch is not None and batch <= progress.batch:
            state = "; the checkpoint is older: a copy, or one whose newest files are gone"
        if self.planned.stateful and not self._has_its_state:
            state += (
                "; this query keeps state (or may keep some), and the state that belongs to that progress is not in"
                " this checkpoint"
            )
        return f"the checkpoint plans batch {batch}, the progress {reached}{state}"


def _listed(findings: Sequence[Difference]) -> str:
    more = f"; and {len(findings) - NAMED} more" if len(findings) > NAMED else ""
    return "".join(f"; {finding.text}" for finding in findings[:NAMED]) + more


def _effects(repeated: Sequence[Rows], missed: Sequence[Rows]) -> list[str]:
    """Return what running from this checkpoint would do, a line each."""
    if not repeated and not missed:
        return ["The offsets alone do not show which rows it would repeat or miss"]
    effects = {"repeat": repeated, "miss": missed}
    return [f"It would {verb} {ranges_text(ranges) if ranges else 'no rows'}" for verb, ranges in effects.items()]


def _by_hand_does(repeated: Sequence[Rows], missed: Sequence[Rows]) -> str:
    does = ["writes the repeated rows again"] if repeated else []
    does += ["never writes the missed rows"] if missed else []
    return f", which {' and '.join(does)}" if does else ", whatever it repeats or misses"


def _starting_offsets(progress: Progress, *, by_source: bool) -> str:
    """Return the ``startingOffsets`` of the sources.

    With several sources, ``committed`` cannot find each one's own place if they were exchanged, or if they read one
    partition at two offsets.
    """
    places: dict[tuple[str, str, int], int] = {}
    ours = [(index, source) for index, source in enumerate(progress.sources) if isinstance(source, KafkaSource)]
    rows = [
        ((source.cluster, name, p), end)
        for _, source in ours
        for name, topic in source.topics.items()
        for p, end in topic.end.items()
    ]
    agree = all(places.setdefault(place, end) == end for place, end in rows)
    if len(ours) == 1 or (agree and not by_source):
        return "the source startingOffsets=committed and this transactionalIdPrefix"
    given = "; ".join(f"{source_label(source.name, index)} {_offsets(source)}" for index, source in ours)
    return (
        f"each source its own startingOffsets: {given} (let each read all topics and partitions in its offsets;"
        " you can remove some after that)"
    )


def _offsets(source: KafkaSource) -> str:
    return write_object(
        {name: {str(p): end for p, end in topic.end.items()} for name, topic in source.topics.items()}
    ).decode()


def _topics(sources: Iterable[Source | None]) -> set[str]:
    return {topic for source in sources if isinstance(source, KafkaSource) for topic in source.topics}


# ---- output topics that were created again


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
            tag=_RECREATED,
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
            tag=_RECREATED,
        )


def _created_again(progress: Progress | None, now: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the former and the present id of each topic that has another one."""
    known = progress.outputs if progress is not None else {}
    return {name: (id, now[name]) for name, id in sorted(known.items()) if name in now and now[name] != id}


def _named(again: Mapping[str, tuple[str, str]]) -> str:
    ids = ", ".join(f"{name!r} (id {before}, now {now})" for name, (before, now) in again.items())
    return f"output topic {ids} was deleted and created again"
