"""Histories of a query, replayed against a small reference of Spark and Kafka: where the table says run or skip, no row
is repeated or left out.

The reference holds every row that was ever committed, and every checkpoint with its offset log, commit log and state.
Batches are planned, committed or lost; commit-log entries get lost; checkpoints are copied, cut, restored and deleted;
partitions are added. State is checked too: what is committed must be built on exactly the rows committed before. The
controls break the table on purpose and must be found. Left out: a checkpoint that lost all of its offset log and kept
its query id. Where a query began is in its end offsets and not in its progress, so such a checkpoint cannot be told
apart.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.spark.sink.micro_batch import PlannedBatch, SourceBatch
from semel.spark.sink.progress_mismatch import Mismatch
from semel.spark.sink.reconcile import Decision, Rebuild, Run, Skip, reconcile
from semel.transaction.progress.record import KafkaSource, Progress, TopicEnd

Offsets = dict[int, int]
Row = tuple[int, int]
Decide = Callable[[PlannedBatch, Progress | None], Decision]


@dataclass
class Checkpoint:
    query: str
    starting: str
    ends: list[tuple[Offsets, Offsets]] = field(default_factory=list)  # (began, end) of each batch: the offset log
    commits: int = 0
    states: dict[int, frozenset[Row]] = field(default_factory=dict)

    def copy(self) -> Checkpoint:
        return Checkpoint(self.query, self.starting, list(self.ends), self.commits, dict(self.states))


class World:
    """Kafka with one input topic, one output and one progress record; Spark with one checkpoint and backups of it."""

    def __init__(self, choices: random.Random, stateful: bool, rule: Decide) -> None:
        self.choices, self.stateful, self.rule = choices, stateful, rule
        self.heads: Offsets = {0: choices.randrange(4)}
        self.output: list[Row] = []
        self.progress: Progress | None = None
        self.queries = 0
        self.backups: list[Checkpoint] = []
        self.seen: set[str] = set()
        self.checkpoint = self._new()

    def _new(self) -> Checkpoint:
        self.queries += 1
        return Checkpoint(f"q{self.queries}", self.choices.choice(["earliest", "latest", "committed"]))

    # What happens from outside

    def rows_arrive(self) -> None:
        for partition in self.heads:
            self.heads[partition] += self.choices.randrange(4)

    def partition_is_added(self) -> None:
        if len(self.heads) < 3:
            self.heads[len(self.heads)] = 0

    def checkpoint_is_copied(self) -> None:
        if self.checkpoint.ends:
            self.backups.append(self.checkpoint.copy())

    def checkpoint_is_restored(self) -> None:
        if self.backups:
            self.checkpoint = self.choices.choice(self.backups).copy()

    def checkpoint_is_deleted(self) -> None:
        self.checkpoint = self._new()

    def checkpoint_is_cut(self) -> None:
        """The newest batches are gone from the logs; the query keeps its id and, in state, what ran."""
        kept = self.choices.randint(min(1, len(self.checkpoint.ends)), len(self.checkpoint.ends))
        del self.checkpoint.ends[kept:]
        self.checkpoint.commits = min(self.checkpoint.commits, kept)

    def commit_entries_are_lost(self) -> None:
        """Spark then replays the newest batch of its offset log, and no older one."""
        if self.checkpoint.ends:
            self.checkpoint.commits = min(self.checkpoint.commits, len(self.checkpoint.ends) - 1)

    # Spark and the sink

    def _initial(self) -> Offsets:
        starting = self.checkpoint.starting
        if starting == "committed" and self.progress is not None:
            ends = _ends(self.progress)
            return {partition: ends.get(partition, 0) for partition in self.heads}
        return dict(self.heads) if starting == "latest" else dict.fromkeys(self.heads, 0)

    def _batch(self) -> tuple[int, Offsets, Offsets, Offsets]:
        """Number, start, began and end of the batch at hand: the logged one that is not committed, or a new one."""
        logged = self.checkpoint
        number = len(logged.ends) - 1 if logged.commits < len(logged.ends) else len(logged.ends)
        before = logged.ends[number - 1] if number > 0 else None
        if number == len(logged.ends):
            began = dict(before[0]) if before is not None else self._initial()
            began.update({p: 0 for p in self.heads if p not in began})
            base = before[1] if before is not None else began
            end = {
                p: self.choices.randint(base.get(p, began[p]), max(self.heads[p], base.get(p, began[p]))) for p in began
            }
            logged.ends.append((began, end))
        began, end = logged.ends[number]
        start = {p: before[1].get(p, began[p]) if before is not None else began[p] for p in began}
        return number, start, began, end

    def batch_runs(self) -> None:
        self._run(dies=False, logs=True)

    def batch_runs_and_its_commit_entry_is_lost(self) -> None:
        self._run(dies=False, logs=False)

    def batch_runs_and_dies(self) -> None:
        self._run(dies=True, logs=False)

    def _run(self, *, dies: bool, logs: bool) -> None:
        number, start, began, end = self._batch()
        source = SourceBatch(None, _source(start), _source(end), _source(began))
        decision = self.rule(PlannedBatch(self.checkpoint.query, number, self.stateful, (source,)), self.progress)
        rows = [(p, offset) for p in end for offset in range(start[p], end[p])]
        self.seen.add(type(decision).__name__)
        if isinstance(decision, Mismatch):
            return
        if isinstance(decision, Skip):
            assert not self.stateful
            assert set(rows) <= set(self.output), "a row was left out"
        else:
            self._execute(number, rows)
            if isinstance(decision, Rebuild):
                assert set(rows) <= set(self.output), "a row was left out"
                assert self.checkpoint.states[number] == set(self.output), (
                    "another state than that of the committed output"
                )
            elif not dies:
                self._commit(number, start, end, rows)
        if logs and not dies:
            self.checkpoint.commits = number + 1

    def _state_before(self, number: int) -> frozenset[Row]:
        return self.checkpoint.states.get(number - 1, frozenset()) if number > 0 else frozenset()

    def _execute(self, number: int, rows: list[Row]) -> None:
        """Spark commits a batch's state before the sink commits the batch: a state version may belong to an attempt
        that was lost.
        """
        self.checkpoint.states[number] = self._state_before(number) | set(rows)

    def _commit(self, number: int, start: Offsets, end: Offsets, rows: list[Row]) -> None:
        if self.stateful:
            assert self._state_before(number) == set(self.output), "the batch is built on another state"
        if self.progress is not None:
            known = _ends(self.progress)
            assert all(start.get(p, 0) <= offset for p, offset in known.items()), "rows were written again"
            assert all(offset <= known.get(p, 0) for p, offset in start.items()), "rows were left out"
        self.output.extend(rows)
        assert len(self.output) == len(set(self.output)), "a row was repeated"
        self.progress = Progress(query=self.checkpoint.query, run="r", batch=number, sources=(_source(end),))


def _source(ends: Offsets) -> KafkaSource:
    return KafkaSource("c", {"in": TopicEnd("t", dict(ends))})


def _ends(progress: Progress) -> Offsets:
    source = progress.sources[0]
    assert isinstance(source, KafkaSource)
    return dict(source.topics["in"].end)


EVENTS: list[tuple[Callable[[World], None], int]] = [
    (World.rows_arrive, 4),
    (World.batch_runs, 8),
    (World.batch_runs_and_its_commit_entry_is_lost, 2),
    (World.batch_runs_and_dies, 2),
    (World.commit_entries_are_lost, 2),
    (World.checkpoint_is_copied, 2),
    (World.checkpoint_is_restored, 2),
    (World.checkpoint_is_cut, 1),
    (World.checkpoint_is_deleted, 1),
    (World.partition_is_added, 1),
]
WEIGHTED = [event for event, weight in EVENTS for _ in range(weight)]


def replay(events: list[Callable[[World], None]], seed: int, stateful: bool, rule: Decide) -> set[str]:
    world = World(random.Random(seed), stateful, rule)
    for event in events:
        event(world)
    return world.seen


HISTORIES = st.lists(st.sampled_from(WEIGHTED), min_size=5, max_size=60)
SEEDS = st.integers(0, 2**32)


@settings(max_examples=600)
@given(HISTORIES, SEEDS, st.booleans())
def test_no_history_repeats_or_leaves_out_a_row(
    events: list[Callable[[World], None]], seed: int, stateful: bool
) -> None:
    replay(events, seed, stateful, lambda planned, progress: reconcile(planned, progress))


def long_histories(rule: Decide, stateful: bool) -> set[str]:
    """Fixed histories: the same on every run, so that what they reach does not depend on luck."""
    seen: set[str] = set()
    for seed in range(300):
        choices = random.Random(seed)
        seen |= replay([choices.choice(WEIGHTED) for _ in range(60)], seed, stateful, rule)
    return seen


@pytest.mark.parametrize(
    ("stateful", "reached"), [(False, {"Run", "Skip", "Mismatch"}), (True, {"Run", "Rebuild", "Mismatch"})]
)
def test_histories_reach_every_decision(stateful: bool, reached: set[str]) -> None:
    assert long_histories(lambda planned, progress: reconcile(planned, progress), stateful) == reached


def always_run(planned: PlannedBatch, progress: Progress | None) -> Decision:
    return Run()


def skip_by_number(planned: PlannedBatch, progress: Progress | None) -> Decision:
    """What a sink does that compares batch numbers alone."""
    if (
        progress is not None
        and progress.query == planned.query
        and progress.batch is not None
        and planned.batch <= progress.batch
    ):
        return Skip()
    return reconcile(planned, progress)


def run_by_number(planned: PlannedBatch, progress: Progress | None) -> Decision:
    """What a sink does that trusts the checkpoint's next batch."""
    return (
        Run()
        if progress is not None and progress.batch is not None and planned.batch == progress.batch + 1
        else reconcile(planned, progress)
    )


def ignore_state(planned: PlannedBatch, progress: Progress | None) -> Decision:
    """Judge a stateful query as if it were stateless; what would be skipped is rebuilt."""
    decision = reconcile(PlannedBatch(planned.query, planned.batch, False, planned.sources), progress)
    return Rebuild() if isinstance(decision, Skip) else decision


@pytest.mark.parametrize(
    ("rule", "stateful"),
    [(always_run, False), (always_run, True), (skip_by_number, False), (run_by_number, False), (ignore_state, True)],
)
def test_broken_tables_are_found(rule: Decide, stateful: bool) -> None:
    with pytest.raises(AssertionError):
        long_histories(rule, stateful)
