"""Transactions of tasks for which an owner decides, in every order of events; each mistake is found, with the harm that
it does.
"""

from __future__ import annotations

import pytest

from model.explore import explore, walk
from model.task_scope.roles import Mistakes
from model.task_scope.scene import Tasks, Trouble
from model.task_scope.settings import CONTROLS, SHORT, WALKS
from semel.steps import OwnerStep, WriterStep

#: Random walks of each kind: a second or two.
WALKED = 60


@pytest.mark.parametrize("setting", SHORT, ids=lambda setting: setting.name)
def test_nothing_is_wrong_in_any_order(setting: Tasks) -> None:
    result = explore(setting)
    assert result.found == []
    assert result.complete
    assert any(end[-1] == "done" for end in result.ends), "nobody has ever finished"


@pytest.mark.parametrize("setting", CONTROLS, ids=lambda setting: setting.name)
def test_a_mistake_is_found(setting: Tasks) -> None:
    (found,) = explore(setting).found
    assert found.problem.startswith(setting.finds)
    assert setting.breaks != Mistakes()


@pytest.mark.parametrize("setting", WALKS, ids=lambda setting: setting.name)
def test_random_walks_find_nothing(setting: Tasks) -> None:
    result = walk(setting, seed=1, seconds=600, most_walks=WALKED)
    assert result.found == []
    assert any(end[-1] == "done" for end in result.ends), "nobody has ever finished"
    assert set(result.steps) == {OwnerStep.INITIALISED, *WriterStep} - {
        WriterStep.TASK_STARTED
    }  # nothing is asked there


def test_each_fault_and_each_mistake_is_tried() -> None:
    assert {fault for setting in SHORT for fault in setting.faults} == set(Trouble)
    tried = [name for setting in CONTROLS for name in Mistakes.__slots__ if getattr(setting.breaks, name)]
    assert sorted(tried) == sorted(Mistakes.__slots__)
