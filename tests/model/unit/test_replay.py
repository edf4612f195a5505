"""Step logs: what the protocol allows is accepted, also where kills cut it, and each thing that it forbids is
refused.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.replay import Allowed, Refused, replay
from semel.testing.step_log import Passed

TAKEN_OVER = ["INITIALISED", "CLAIMED", "PROGRESS_READ", "MARKERS_CHECKED"]
WRITES = ["BEGUN", "PARTITIONS_ADDED", "WRITTEN", "PROGRESS_WRITTEN", "OFFSETS_ADDED"]
COMMITTED = [*WRITES, "COMMIT_SENT", "COMMIT_ANSWERED", "MARKERS_SEEN"]
ABORTED = ["BEGUN", "PARTITIONS_ADDED", "ABORT_SENT", "ABORT_ANSWERED", "MARKERS_SEEN"]
WHOLE = [*TAKEN_OVER, *COMMITTED, *ABORTED, *COMMITTED]
#: All transactions have rows: what writes nothing passes WRITTEN first.
ROWS = Allowed(progress_alone=False)


def log(*passed: tuple[str, str] | str, detail: str = "orders") -> list[Passed]:
    """Lines: a step of process A, or (process, step)."""
    pairs = [("A", one) if isinstance(one, str) else one for one in passed]
    lines = [
        Passed(ord(who), f"OwnerStep.{step}", detail, float(at), 1, at, "12:00") for at, (who, step) in enumerate(pairs)
    ]
    return [Passed(lines[0].pid, "ParticipantStep.SENT", "out", 0.0, 0, 0, "12:00"), *lines]


def of(who: str, steps: list[str]) -> list[tuple[str, str]]:
    return [(who, step) for step in steps]


@pytest.mark.parametrize("cut", range(1, len(WHOLE) + 1))
def test_an_owner_may_be_cut_anywhere(cut: int) -> None:
    """…and the next one goes on behind it."""
    told = replay(log(*of("A", WHOLE[:cut]), *of("B", WHOLE)), allowed=ROWS)
    assert (told.ids, told.owners, told.lines) == (1, 2, cut + len(WHOLE))


@pytest.mark.parametrize(
    "steps",
    [
        [*TAKEN_OVER, *WRITES, "COMMIT_SENT", "COMMIT_SENT", "COMMIT_ANSWERED", "MARKERS_SEEN"],
        [
            *TAKEN_OVER,
            *WRITES,
            "COMMIT_SENT",
            "COMMIT_ANSWERED",
            "ABORT_SENT",
            "ABORT_ANSWERED",
            "MARKERS_SEEN",
            *COMMITTED,
        ],
        [*TAKEN_OVER, *WRITES[:-1], "ABORT_SENT", "ABORT_ANSWERED", "MARKERS_SEEN", *COMMITTED],
        [*TAKEN_OVER, "BEGUN", "ABORT_SENT", "ABORT_ANSWERED", "MARKERS_SEEN", *COMMITTED],
        [*TAKEN_OVER, "BEGUN", "BEGUN", "WRITTEN", *COMMITTED],
        [*TAKEN_OVER, "BEGUN", "WRITTEN", "PARTITIONS_ADDED", *COMMITTED[3:]],
        [*TAKEN_OVER, *COMMITTED, *TAKEN_OVER, *COMMITTED],
        [*TAKEN_OVER, *ABORTED[:-1], *TAKEN_OVER, "BEGUN", "PARTITIONS_ADDED", "MARKERS_SEEN", *COMMITTED[2:]],
    ],
    ids=[
        "sent again",
        "expired",
        "failed late",
        "adding refused",
        "nothing in it",
        "progress alone",
        "taken over again",
        "markers of the owner before",
    ],
)
def test_what_is_rare_is_allowed(steps: list[str]) -> None:
    replay(log(*steps))


def test_a_log_of_hours_is_held_against_few_situations() -> None:
    """An owner in the place of another in one process, again and again; and one that thaws behind its successor's first
    line, and is gone then.
    """
    again = [*TAKEN_OVER, *COMMITTED, *ABORTED]
    assert replay(log(*again * 20)).most < 100
    thawed = [
        *of("A", [*TAKEN_OVER, *COMMITTED, *WRITES[:2]]),
        *of("B", TAKEN_OVER[:1]),
        *of("A", ["WRITTEN"]),
        *of("B", TAKEN_OVER[1:]),
    ]
    assert replay(log(*thawed, *of("B", [*COMMITTED, *ABORTED] * 20))).most < 1_000


def test_without_a_group_no_offsets_are_added() -> None:
    replay(log(*[step for step in WHOLE if step != "OFFSETS_ADDED"]))


def test_a_lost_marker_is_healed_and_progress_read_again() -> None:
    healed = [
        "INITIALISED",
        "CLAIMED",
        "PROGRESS_READ",
        "HEALED",
        "HEALED",
        "MARKERS_CHECKED",
        "CLAIMED",
        "PROGRESS_READ",
        "MARKERS_CHECKED",
    ]
    replay(log(*of("A", [*TAKEN_OVER, *WRITES, "COMMIT_SENT"]), *of("B", [*healed, *COMMITTED])))
    replay(log(*TAKEN_OVER, *COMMITTED[:-1], "DECISION_WRITTEN", "HEALED", "MARKERS_SEEN", *COMMITTED))


def test_the_groups_partition_is_healed_when_the_group_is_looked_at() -> None:
    """In a takeover behind the others; where progress does not say what the group should show, in front of the first
    offsets.
    """
    committed = of("A", [*TAKEN_OVER, *COMMITTED[:-1]])
    replay(log(*committed, *of("B", [*TAKEN_OVER, "HEALED", *COMMITTED])))
    aborted = of("A", [*TAKEN_OVER, *WRITES])
    for before in (committed, aborted):
        replay(log(*before, *of("B", [*TAKEN_OVER, *WRITES[:-1], "HEALED", "OFFSETS_ADDED", *COMMITTED[5:]])))


def test_what_was_healed_belongs_to_its_id() -> None:
    """The detail names the partition behind the id, and an id may hold blanks."""
    lines = log(*TAKEN_OVER, *COMMITTED[:-1], "DECISION_WRITTEN", "HEALED", "MARKERS_SEEN", detail="my orders")
    told = replay(
        [replace(line, detail="my orders out-0") if line.step == "OwnerStep.HEALED" else line for line in lines]
    )
    assert (told.ids, told.owners) == (1, 1)


def test_a_fenced_owner_may_learn_of_it_at_its_next_request() -> None:
    """Its line may come late, behind those of its successor: it was answered before."""
    rival = of("B", TAKEN_OVER)
    replay(
        log(
            *of("A", [*TAKEN_OVER, "BEGUN"]),
            *rival,
            ("A", "PARTITIONS_ADDED"),
            ("A", "ABORT_SENT"),
            ("A", "ABORT_ANSWERED"),
            *of("B", COMMITTED),
        )
    )
    replay(
        log(
            *of("A", [*TAKEN_OVER, *WRITES]),
            *rival,
            ("A", "COMMIT_SENT"),
            ("A", "COMMIT_ANSWERED"),
            *of("B", COMMITTED),
        )
    )


def test_who_was_answered_first_may_log_it_last() -> None:
    """…having been frozen in between. Only one of the two can go on."""
    both = [*of("A", TAKEN_OVER), *of("B", TAKEN_OVER[:3])]
    replay(log(*both, *of("A", COMMITTED)))
    replay(log(*both, ("B", "MARKERS_CHECKED"), *of("B", COMMITTED)))
    with pytest.raises(Refused):
        replay(log(*both, ("B", "MARKERS_CHECKED"), *of("A", COMMITTED), *of("B", COMMITTED)))


def test_an_expired_id_is_taken_over_inside_a_transaction() -> None:
    steps = [*TAKEN_OVER, "BEGUN", *TAKEN_OVER, *COMMITTED[1:]]
    replay(log(*steps), allowed=Allowed(expired_ids=True))
    with pytest.raises(Refused):
        replay(log(*steps))


def test_an_epoch_is_skipped_after_each_transaction() -> None:
    """On brokers before 4.2. Where they are known to be old, an owner that begins without it is refused."""
    skips, aborts = [*COMMITTED, "EPOCH_SKIPPED"], [*ABORTED, "EPOCH_SKIPPED"]
    for cut in range(1, len(skips) + 1):
        replay(log(*of("A", [*TAKEN_OVER, *skips[:cut]]), *of("B", [*TAKEN_OVER, *skips, *aborts, *skips])))
    replay(log(*TAKEN_OVER, *COMMITTED, *TAKEN_OVER, *skips))  # in between, a broker has not said how old it is
    replay(log(*TAKEN_OVER, *ABORTED[:-1], *TAKEN_OVER, "BEGUN", *ABORTED[-1:], "EPOCH_SKIPPED", *skips[1:]))
    always = Allowed(progress_alone=False, skips_epochs=(True,))
    replay(log(*TAKEN_OVER, *skips, *aborts), allowed=always)
    with pytest.raises(Refused, match=r"forbids OwnerStep\.BEGUN"):
        replay(log(*TAKEN_OVER, *skips, *COMMITTED, *skips), allowed=always)


def test_strangers_that_do_not_log() -> None:
    """The abort of a transaction is answered, and its owner is fenced though no line says by whom: only then is silence
    the rule.
    """
    replay(log(*TAKEN_OVER, *COMMITTED, *TAKEN_OVER), allowed=Allowed(strangers=True))
    with pytest.raises(Refused):
        replay(log(*TAKEN_OVER, *COMMITTED, "CLAIMED"), allowed=Allowed(strangers=True))


# ---- controls: a log that is changed is refused


@pytest.mark.parametrize("at", range(len(WHOLE) - 1))
def test_a_step_is_missing(at: int) -> None:
    # an abort may come before PARTITIONS_ADDED is passed: the request was refused
    if WHOLE[at : at + 2] == ["PARTITIONS_ADDED", "ABORT_SENT"]:
        replay(log(*WHOLE[:at], *WHOLE[at + 1 :]), allowed=ROWS)
        return
    with pytest.raises(Refused):
        replay(log(*WHOLE[:at], *WHOLE[at + 1 :]), allowed=ROWS)


@pytest.mark.parametrize("at", range(len(WHOLE) - 1))
def test_two_steps_are_exchanged(at: int) -> None:
    with pytest.raises(Refused):
        replay(log(*WHOLE[:at], WHOLE[at + 1], WHOLE[at], *WHOLE[at + 2 :]), allowed=ROWS)


@pytest.mark.parametrize(
    ("steps", "forbidden"),
    [
        (["INITIALISED", "CLAIMED", "PROGRESS_READ", "BEGUN", "MARKERS_CHECKED"], "BEGUN"),
        (["CLAIMED", "PROGRESS_READ", "INITIALISED"], "CLAIMED"),
        ([*TAKEN_OVER, "BEGUN", "PARTITIONS_ADDED", "WRITTEN", "COMMIT_SENT", "PROGRESS_WRITTEN"], "COMMIT_SENT"),
        ([*TAKEN_OVER, *COMMITTED[:-1], *COMMITTED], "BEGUN"),
        ([*TAKEN_OVER, *COMMITTED[:-1], "ABORT_SENT", "ABORT_ANSWERED", "COMMIT_SENT"], "COMMIT_SENT"),
        ([*TAKEN_OVER, *COMMITTED, "HEALED"], "HEALED"),
        ([*TAKEN_OVER, *COMMITTED[:-1], "EPOCH_SKIPPED", "MARKERS_SEEN"], "EPOCH_SKIPPED"),
        ([*TAKEN_OVER, *COMMITTED, "BEGUN", "EPOCH_SKIPPED"], "EPOCH_SKIPPED"),
    ],
    ids=[
        "begun before markers",
        "claimed first",
        "committed before progress",
        "markers not awaited",
        "committed twice",
        "healed too late",
        "skipped before markers",
        "skipped too late",
    ],
)
def test_what_is_forbidden(steps: list[str], forbidden: str) -> None:
    with pytest.raises(Refused, match=rf"forbids OwnerStep\.{forbidden} of process"):
        replay(log(*steps))


def test_a_step_behind_a_fencing() -> None:
    """The successor has its first transaction: nothing of the predecessor can be written any more."""
    rival = of("B", [*TAKEN_OVER, "BEGUN", "PARTITIONS_ADDED"])
    fenced = [*of("A", [*TAKEN_OVER, "BEGUN", "PARTITIONS_ADDED"]), *rival]
    with pytest.raises(Refused, match=r"forbids OwnerStep\.PROGRESS_WRITTEN of process 65"):
        replay(log(*fenced, ("A", "WRITTEN"), ("A", "PROGRESS_WRITTEN")))
    stopped = [*of("A", [*TAKEN_OVER, *WRITES]), *rival, ("A", "COMMIT_SENT"), ("A", "COMMIT_ANSWERED")]
    # the commit may have been done in front of it, its lines come late; nothing more can follow
    replay(log(*stopped, ("A", "MARKERS_SEEN"), ("A", "BEGUN")))
    with pytest.raises(Refused, match=r"forbids OwnerStep\.PARTITIONS_ADDED of process 65"):
        replay(log(*stopped, ("A", "MARKERS_SEEN"), ("A", "BEGUN"), ("A", "PARTITIONS_ADDED")))


def test_offsets_are_left_out_once() -> None:
    without = [step for step in COMMITTED if step != "OFFSETS_ADDED"]
    with pytest.raises(Refused, match="COMMIT_SENT"):
        replay(log(*TAKEN_OVER, *COMMITTED, *without))


def test_a_refusal_says_what_would_have_been_allowed() -> None:
    with pytest.raises(
        Refused,
        match=r"OwnerStep.BEGUN of process 65 .* on id 'orders' here. It allows MARKERS_CHECKED. The lines up to"
        r" it:\n  12:00",
    ):
        replay(log("INITIALISED", "CLAIMED", "PROGRESS_READ", "BEGUN"))


def test_ids_are_held_apart() -> None:
    told = replay([*log(*TAKEN_OVER, detail="orders"), *log(*TAKEN_OVER, detail="bills")])
    assert told.ids == 2
    assert str(told).startswith("8 steps of 2 owners of 2 transactional ids are allowed")
