"""Every (state, event) pair: where it leads, and what an illegal one raises."""

from __future__ import annotations

import itertools

import pytest

from semel.errors import ConfigError, Fenced, Retriable, SemelError
from semel.transaction.states import Event, State, States

# Written from the protocol. An owner takes over before anything else, and again only while nothing of its own is open;
# it begins one transaction at a time; whoever has sent a commit can only learn how it ended; whoever is fenced or does
# not know stays so until the producer is closed.
LEGAL = {
    (State.NEW, Event.TAKING_OVER): State.NEW,
    (State.NEW, Event.TAKEN_OVER): State.READY,
    (State.NEW, Event.FENCED): State.FENCED,
    (State.NEW, Event.GIVEN_UP): State.UNKNOWN,
    (State.READY, Event.TAKING_OVER): State.NEW,
    (State.READY, Event.HANDED_OVER): State.NEW,
    (State.READY, Event.BEGUN): State.OPEN,
    (State.READY, Event.FENCED): State.FENCED,
    (State.READY, Event.GIVEN_UP): State.UNKNOWN,
    (State.OPEN, Event.ADDED): State.OPEN,
    (State.OPEN, Event.EXPIRED): State.NEW,
    (State.OPEN, Event.NOTHING): State.READY,
    (State.OPEN, Event.COMMIT_SENT): State.COMMITTING,
    (State.OPEN, Event.ABORT_SENT): State.ABORTING,
    (State.OPEN, Event.FENCED): State.FENCED,
    (State.OPEN, Event.GIVEN_UP): State.UNKNOWN,
    (State.COMMITTING, Event.ANSWERED): State.READY,
    (State.COMMITTING, Event.ABORT_SENT): State.ABORTING,
    (State.COMMITTING, Event.FENCED): State.FENCED,
    (State.COMMITTING, Event.GIVEN_UP): State.UNKNOWN,
    (State.ABORTING, Event.ANSWERED): State.READY,
    (State.ABORTING, Event.FENCED): State.FENCED,
    (State.ABORTING, Event.GIVEN_UP): State.UNKNOWN,
    **{(state, Event.CLOSED): State.CLOSED for state in State},
}
PAIRS = list(itertools.product(State, Event))
ILLEGAL = [pair for pair in PAIRS if pair not in LEGAL]


def standing_at(state: State) -> States:
    states = States("orders")
    states.now = state
    return states


def name(value: object) -> str:
    return value.name if isinstance(value, State | Event) else str(value)


def test_an_owner_starts_without_its_id() -> None:
    assert States("orders").now is State.NEW


@pytest.mark.parametrize(("state", "event"), list(LEGAL), ids=name)
def test_a_legal_move(state: State, event: Event) -> None:
    states = standing_at(state)
    states.move(event)
    assert states.now is LEGAL[state, event]


@pytest.mark.parametrize(("state", "event"), ILLEGAL, ids=name)
def test_an_illegal_move_raises_and_stays(state: State, event: Event) -> None:
    states = standing_at(state)
    kinds: dict[State, type[SemelError]] = {State.FENCED: Fenced, State.UNKNOWN: Retriable}
    with pytest.raises(kinds.get(state, ConfigError), match=r"'orders'.*Nothing was sent") as raised:
        states.move(event)
    assert states.now is state
    assert raised.value.tag == {State.FENCED: "FENCED", State.UNKNOWN: "OUTCOME_UNKNOWN"}.get(state, "ILLEGAL_STATE")


@pytest.mark.parametrize("state", [State.FENCED, State.UNKNOWN, State.CLOSED], ids=name)
def test_from_these_only_closing_leads_on(state: State) -> None:
    assert [event for event in Event if (state, event) in LEGAL] == [Event.CLOSED]
