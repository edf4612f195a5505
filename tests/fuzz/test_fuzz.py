"""Every parser is fed with spoilt inputs for a moment, always the same ones; ``make fuzz`` does it for as long as one
likes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import broken
from tests.fuzz.run import Report, input_of
from tests.fuzz.targets import TARGETS
from tests.fuzz.watch import watched

SECONDS = 0.5


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """All targets in one process of their own."""
    return {report.target: report for report in watched(list(TARGETS), 1, SECONDS, tmp_path_factory.mktemp("kept"))}


@pytest.mark.parametrize("name", TARGETS)
def test_only_our_own_errors_in_time_and_within_bounds(reports: dict[str, Report], name: str) -> None:
    report = reports[name]
    assert report.failures == [], str(report)
    assert report.inputs > 0


def test_valid_and_spoilt_inputs_are_both_among_them(reports: dict[str, Report]) -> None:
    """A fuzzer whose inputs are all refused at the first byte, or none, tries nothing."""
    total, accepted = sum(r.inputs for r in reports.values()), sum(r.accepted for r in reports.values())
    assert 0 < accepted < total


@pytest.fixture(scope="module")
def broken_reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    found = watched(list(broken.TARGETS), 1, 0.2, tmp_path_factory.mktemp("kept"), module="tests.fuzz.broken")
    return {report.target: report for report in found}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("index", "IndexError"),
        ("loop", "the processor worked on"),
        ("allocates", "bytes were held for an input of"),
        ("more-than-there-is", "MemoryError"),
        ("dies", "the process ended by SIGSEGV"),
    ],
)
def test_control_a_parser_that_is_broken_is_found(broken_reports: dict[str, Report], name: str, said: str) -> None:
    (failure,) = broken_reports[name].failures
    assert said in failure.what
    assert failure.kept in str(broken_reports[name]), "its file is named"
    assert Path(failure.kept).read_bytes() == input_of(broken.TARGETS[name], 1, failure.number), (
        "and made again from the seed"
    )


@pytest.mark.parametrize("name", ["sound", "loud", "table-made-anew"])
def test_control_a_sound_parser_passes(broken_reports: dict[str, Report], name: str) -> None:
    """Also one that says more than a pipe holds, and one in which the interpreter makes a table of its own anew now and
    then.
    """
    report = broken_reports[name]
    assert report.failures == []
    assert report.accepted > 0
    assert str(report).startswith(f"{name}: seed 1, {report.inputs} inputs")
