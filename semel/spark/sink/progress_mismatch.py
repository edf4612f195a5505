"""What a refusal of PROTOCOL 6 says: what was found where, which rows would be repeated or missed, the ways out.

A block of lines, indented as :func:`semel.errors.from_text` reads them back from Spark's text. The token of the way out
is a digest of the progress and of the batch at hand, so it is spent as soon as either moves. Not promised: the ranges
where offsets cannot be compared (another cluster, a topic that was created again, sources that are not semel's); the
text says so.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from semel.errors import DataLoss
from semel.spark.sink.differences import NAMED, Difference, Rows, ranges_text, source_label
from semel.spark.sink.planned_batch import PlannedBatch
from semel.strict_json import write_object
from semel.transaction.progress.record import KafkaSource, Progress, Source

__all__ = ["Mismatch", "is_given"]

#: What stands before each further line.
_LINE = "\n    "
#: What there is to do where the progress is right, and where there is none.
_GO_ON = "start with another, empty checkpoint (this one holds the refused batch), and give"
_AS_WRITTEN = "to go on from the progress, with nothing repeated or missed,"
#: It stands where somebody has set it, and not where the rows end.
_AS_SET = (
    "to go on from the progress, where it was set (what was written from there on is written once more, and what was"
    " not read in front of it is missed),"
)


def is_given(token: str, override: str | None) -> bool:
    """Return whether a user has given this token: two refusals of one batch want two, with a comma between."""
    return override is not None and token in override.split(",")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Stop: nobody but a person can say what is right.

    ``override`` is the token that the user gave, if any, and ``prefix`` is for the words.
    """

    planned: PlannedBatch
    progress: Progress | None
    differences: tuple[Difference, ...]
    prefix: str
    override: str | None = field(default=None, compare=False)

    @property
    def token(self) -> str:
        """A digest of P and N: what ``onProgressMismatch=checkpoint:<token>`` must say to run the batch all the same.

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
        """The rows that running the batch as it is would write once more."""
        return tuple(one.repeated for one in self.differences if one.repeated is not None)

    @property
    def missed(self) -> tuple[Rows, ...]:
        """The rows that running the batch as it is would leave out for good."""
        return tuple(one.missed for one in self.differences if one.missed is not None)

    @property
    def tag(self) -> str:
        """The tag of its error."""
        return "DATA_LOSS" if any(one.lost for one in self.differences) else "PROGRESS_MISMATCH"

    @property
    def reason(self) -> str:
        """What was found, and what running the batch as it is would do, in one line."""
        effects = ". ".join(_effects(self.repeated, self.missed))
        return f"{self._head}{_listed(self.differences)}. {effects}.{' ' + self._state if self._state else ''}"

    @property
    def message(self) -> str:
        """What is said where the batch is not run: what was found, what would be repeated and missed, the ways out."""
        spent = ""
        if self.override is not None and not is_given(self.token, self.override):
            spent = f" The token that was given, {self.override!r}, is for another batch or another progress record."
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
            f"batch {self.planned.batch} of query {self.planned.query} does not go on from the progress of"
            f" transactionalIdPrefix {self.prefix!r}: {self._found()}"
        )

    @property
    def _state(self) -> str:
        if not self.planned.stateful or self.progress is None or self._has_its_state:
            return ""
        return (
            "What the query keeps (sums, windows, rows of a join) would go on from what this checkpoint has of it: a"
            " new one has nothing, so that each sum begins at 0, and is written in the place of the right one."
        )

    def error(self) -> DataLoss:
        """The exception that says it."""
        return DataLoss(self.message, tag=self.tag)

    @property
    def ways_out(self) -> list[str]:
        """What the user can do, each in a sentence."""
        if self.progress is None:
            return self._ways_without_progress()
        theirs = _topics(self.progress.sources)
        ours = _topics([*self.planned.starts, *self.planned.ends])
        strange = bool(self.progress.query != self.planned.query and ours and theirs and not ours & theirs)
        return [
            *self._ways_of_another_query(theirs, strange=strange),
            *self._ways_to_go_on(self.progress, strange=strange),
            self._by_hand + _by_hand_does(self.repeated, self.missed),
            f"`semel progress reset {shlex.quote(self.prefix)}` forgets the progress, for another, empty checkpoint"
            f" (this one holds the refused batch) that begins by its startingOffsets{self._anew}",
        ]

    @property
    def _by_hand(self) -> str:
        return f"onProgressMismatch=checkpoint:{self.token} runs this one batch as the checkpoint has it"

    @property
    def _anew(self) -> str:
        if self.planned.stateful:
            return (
                ": with earliest its state is made anew from all rows that are there, and their output is written once"
                " more"
            )
        return ": what it reads from there is written, also what is written already"

    def _ways_without_progress(self) -> list[str]:
        return [
            "if the prefix was changed, and no sink uses the former one any more:"
            f" `semel progress rename <former> {shlex.quote(self.prefix)}`",
            f"{self._by_hand}: right where all in front of it was written, by another sink or without exactly-once, or"
            " where there was nothing to write (foreachBatch left out empty batches: have it call the sink for every"
            " batch from now on); what was not will be missing",
            "another, empty checkpoint begins by its startingOffsets (earliest: with all that is there): right where"
            " nothing was written yet; what was is written once more",
        ]

    def _ways_of_another_query(self, theirs: set[str], *, strange: bool) -> list[str]:
        if not strange:
            return []
        return [
            f"if the progress is another query's (it reads {', '.join(sorted(theirs))}), give this one a"
            " transactionalIdPrefix of its own: what follows would be done to that query"
        ]

    def _ways_to_go_on(self, progress: Progress, *, strange: bool) -> list[str]:
        if strange:
            return []
        if self.planned.stateful:  # no other checkpoint has its state
            if progress.batch is None:
                return []
            return [
                f"start from a copy of the checkpoint of query {progress.query} that has reached batch"
                f" {progress.batch} (its folder offsets has a file of that name before it is started), if there is one"
            ]
        if any(one.apart for one in self.differences):
            return []
        where = _AS_SET if progress.batch is None else _AS_WRITTEN
        by_source = any(one.by_source for one in self.differences)
        return [f"{where} {_GO_ON} {_go_on(progress, by_source=by_source)}"]

    @property
    def _has_its_state(self) -> bool:
        """Whether the state of this checkpoint is that which belongs to the progress."""
        progress, batch = self.progress, self.planned.batch
        assert progress is not None
        at_it = progress.batch is not None and batch in (progress.batch, progress.batch + 1)
        return progress.query == self.planned.query and at_it

    def _found(self) -> str:
        progress, query, batch = self.progress, self.planned.query, self.planned.batch
        if progress is None:
            return (
                f"the checkpoint plans batch {batch}, and there is no progress at all (this sink is new in the query,"
                " or its progress is lost, forgotten by `semel progress reset`, or written under another prefix; this"
                " query wrote without exactly-once before, or did not call the sink for the batches before, as it must"
                " for empty ones too)"
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
                "; the sink was not called for the batches between, or wrote them elsewhere: foreachBatch must call"
                " it for every batch, empty or not"
            )
        elif progress.query == query and progress.batch is not None and batch <= progress.batch:
            state = "; the checkpoint is behind it: an older copy, or one whose newest files are gone"
        if self.planned.stateful and not self._has_its_state:
            state += (
                "; this query keeps state (or cannot be told stateless), and the state that belongs to that progress"
                " is not in this checkpoint"
            )
        return f"the checkpoint plans batch {batch}, the progress {reached}{state}"


def _listed(findings: Sequence[Difference]) -> str:
    more = f"; and {len(findings) - NAMED} more" if len(findings) > NAMED else ""
    return "".join(f"; {finding.text}" for finding in findings[:NAMED]) + more


def _effects(repeated: Sequence[Rows], missed: Sequence[Rows]) -> list[str]:
    """Return what going on from this checkpoint would do, a line each."""
    if not repeated and not missed:
        return ["Which rows it would repeat or miss cannot be told from offsets alone"]
    effects = {"repeat": repeated, "miss": missed}
    return [f"It would {verb} {ranges_text(ranges) if ranges else 'no rows'}" for verb, ranges in effects.items()]


def _by_hand_does(repeated: Sequence[Rows], missed: Sequence[Rows]) -> str:
    does = ["writes the rows to repeat once more"] if repeated else []
    does += ["leaves the rows to miss out for good"] if missed else []
    return f", which {' and '.join(does)}" if does else ", whatever that repeats or misses"


def _go_on(progress: Progress, *, by_source: bool) -> str:
    """What sources are given.

    Of several, ``committed`` finds none its own place where they were exchanged, or read one partition at two offsets.
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
        f"each source its own startingOffsets: {given} (let each read all that its offsets name; topics and"
        " partitions can be left out again after that)"
    )


def _offsets(source: KafkaSource) -> str:
    return write_object(
        {name: {str(p): end for p, end in topic.end.items()} for name, topic in source.topics.items()}
    ).decode()


def _topics(sources: Iterable[Source | None]) -> set[str]:
    return {topic for source in sources if isinstance(source, KafkaSource) for topic in source.topics}
