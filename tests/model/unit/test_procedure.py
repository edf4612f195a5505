"""The procedure of PROTOCOL.md in every order of events, and the controls: each break of it is found, with the harm
that it does.
"""

from __future__ import annotations

import pytest

from model.explore import explore, walk
from model.mutations import Breaks
from model.settings import CONTROLS, LONG, SHORT, WALKS, by_name
from model.world import Fault, Setting
from semel.steps import OwnerStep

#: Random walks of each kind: some seconds in all.
WALKED = 40


@pytest.mark.parametrize("setting", SHORT, ids=lambda setting: setting.name)
def test_nothing_is_wrong_in_any_order(setting: Setting) -> None:
    result = explore(setting)
    assert result.found == []
    assert result.complete
    assert any("done" in end for end in result.ends), "nobody has ever finished"


@pytest.mark.parametrize("setting", CONTROLS, ids=lambda setting: setting.name)
def test_a_break_is_found(setting: Setting) -> None:
    (found,) = explore(setting).found
    assert found.problem.startswith(setting.finds)
    assert setting.breaks != Breaks()


@pytest.mark.parametrize("setting", WALKS, ids=lambda setting: setting.name)
def test_random_walks_find_nothing(setting: Setting) -> None:
    result = walk(setting, seed=1, seconds=600, most_walks=WALKED)
    assert result.found == []
    assert result.walks == WALKED
    assert any(end[-1] == "done" for end in result.ends), "nobody has ever finished"


def test_the_same_seed_walks_the_same_ways() -> None:
    one, same, other = (walk(WALKS[0], seed=seed, seconds=600, most_walks=10) for seed in (7, 7, 8))
    assert (one.moves, one.ends) == (same.moves, same.ends)
    assert one.moves != other.moves


def test_random_walks_find_a_break_and_shorten_the_trace() -> None:
    setting = by_name("control: no precedence")
    (found,) = walk(setting, seed=1, seconds=600, most_walks=2_000).found
    (shortest,) = explore(setting).found
    assert found.problem.startswith("a duplicate")
    assert len(shortest.trace) <= len(found.trace) < 2 * len(shortest.trace)


def test_each_step_is_passed() -> None:
    """The model speaks the names of steps.py, all of them."""
    walked = walk(by_name("walk: late markers"), seed=1, seconds=600, most_walks=150)
    assert set(walked.steps) == set(OwnerStep)


def test_each_fault_and_each_break_is_tried() -> None:
    assert {fault for setting in SHORT for fault in setting.faults} | {Fault.DEPOSED, Fault.HANGS} == set(Fault)
    assert {fault for setting in CONTROLS for fault in setting.faults} >= {Fault.DEPOSED, Fault.HANGS}
    broken = [name for setting in CONTROLS for name in Breaks.__slots__ if getattr(setting.breaks, name)]
    assert sorted(broken) == sorted(Breaks.__slots__)
    names = [setting.name for setting in (*SHORT, *LONG, *WALKS, *CONTROLS)]
    assert len(set(names)) == len(names)
