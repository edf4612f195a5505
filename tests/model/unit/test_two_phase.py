"""Prepared transactions and a database in every order of events; each mistake is found, with the harm that it does."""

from __future__ import annotations

import pytest

from model.explore import explore, walk
from model.two_phase import Prepares, Trouble
from model.two_phase_owner import Mistakes
from model.two_phase_settings import CONTROLS, SHORT, WALKS
from semel.steps import OutboxStep, TwoPhaseStep

#: Random walks of each kind: a second or two.
WALKED = 60
#: Steps at which nothing is asked of brokers or database: a crash there is one at the request before or after it.
_BETWEEN = {
    OutboxStep.BEGUN,
    OutboxStep.TEXT_WRITTEN,
    OutboxStep.DECISION_SENT,
    TwoPhaseStep.COMMIT_SENT,
    TwoPhaseStep.COMMIT_ANSWERED,
    TwoPhaseStep.ABORT_SENT,
    TwoPhaseStep.ABORT_ANSWERED,
    TwoPhaseStep.DECIDED,
}


@pytest.mark.parametrize("setting", SHORT, ids=lambda setting: setting.name)
def test_nothing_is_wrong_in_any_order(setting: Prepares) -> None:
    result = explore(setting)
    assert result.found == []
    assert result.complete
    assert any(end[-1] == "done" for end in result.ends), "nobody has ever finished"


@pytest.mark.parametrize("setting", CONTROLS, ids=lambda setting: setting.name)
def test_a_mistake_is_found(setting: Prepares) -> None:
    (found,) = explore(setting).found
    assert found.problem.startswith(setting.finds)
    assert setting.breaks != Mistakes()


@pytest.mark.parametrize("setting", WALKS, ids=lambda setting: setting.name)
def test_random_walks_find_nothing(setting: Prepares) -> None:
    result = walk(setting, seed=1, seconds=600, most_walks=WALKED)
    assert result.found == []
    assert any(end[-1] == "done" for end in result.ends), "nobody has ever finished"
    skipped = set() if setting.late_markers else {TwoPhaseStep.EPOCH_SKIPPED}
    assert set(result.steps) == (set(OutboxStep) | set(TwoPhaseStep)) - _BETWEEN - skipped


def test_each_fault_and_each_mistake_is_tried() -> None:
    assert {fault for setting in SHORT for fault in setting.faults} == set(Trouble)
    tried = [name for setting in CONTROLS for name in Mistakes.__slots__ if getattr(setting.breaks, name)]
    assert sorted(tried) == sorted(Mistakes.__slots__)
