"""The module of each minor version of Spark, without a Spark: which is taken, and what each says."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from semel.errors import Unsupported
from semel.spark.jvm import versions
from semel.spark.jvm.versions import spark_4_0
from semel.spark.jvm.versions.spark_4_0 import Spark40, numbers_of_tasks
from semel.spark.jvm.versions.spark_4_1 import Spark41
from semel.spark.jvm.versions.spark_4_2 import Spark42
from semel.spark.jvm.versions.spark_4_3 import Spark43

SPARK_HASHES = {
    # spark.range(…).selectExpr("hash(cast(id as int))"), Spark 4.0.5
    0: 933211791,
    1: -559580957,
    2: 1765031574,
    3: -1823081949,
    4: -397064898,
    1000: -14577491,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4.0.5", Spark40), ("4.1.4", Spark41), ("4.2.1", Spark42), ("4.3.0", Spark43), ("4.3.1-amzn-0", Spark43)],
)
def test_each_version_has_its_module(text: str, expected: type, caplog: pytest.LogCaptureFixture) -> None:
    assert type(versions.version_of(text)) is expected
    assert caplog.records == []


@pytest.mark.parametrize("text", ["4.4.0.dev1", "5.0.0"])
def test_a_newer_one_is_taken_for_the_newest_with_a_warning(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "semel.spark"):
        assert type(versions.version_of(text)) is Spark43
    assert [text in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("text", ["3.5.9", "2.4", "a fork"])
def test_an_older_one_is_refused(text: str) -> None:
    with pytest.raises(Unsupported, match=r"\[SEMEL_SPARK_VERSION\]"):
        versions.version_of(text)


def test_every_supported_version_has_a_module() -> None:
    for major, minor in versions.SUPPORTED:
        module = importlib.import_module(f"semel.spark.jvm.versions.spark_{major}_{minor}")
        assert isinstance(module.VERSION, Spark43)


# ---- 4.3 and 4.2, and what is known by position before


def relation(name: str | None) -> Any:
    """A relation as Spark 4.3 has it."""
    option = SimpleNamespace(isDefined=lambda: name is not None, get=lambda: name)
    return SimpleNamespace(sourceIdentifyingName=lambda: SimpleNamespace(nameOpt=lambda: option))


@pytest.mark.parametrize("version", [Spark43(), Spark42()])
def test_sources_are_known_by_name_and_key(version: Spark43) -> None:
    execution = SimpleNamespace(sourceToIdMap=lambda: SimpleNamespace(apply=lambda stream: f"key of {stream}"))
    assert version.source_keys(execution, ["a", "b"]) == ["key of a", "key of b"]
    assert version.source_name(relation("orders")) == "orders"
    assert version.source_name(relation(None)) is None
    assert all((version.validates_state, version.limits_each_batch, version.reports_latest))


@pytest.mark.parametrize("version", [Spark41(), Spark40()])
def test_before_sources_are_known_by_position(version: Spark43) -> None:
    nothing = SimpleNamespace()
    assert version.source_keys(nothing, ["a", "b"]) == ["0", "1"]
    assert version.source_name(nothing) is None
    assert not any((version.limits_each_batch, version.reports_latest))
    assert version.validates_state == (not isinstance(version, Spark40)), "since 4.1"


# ---- 4.0: rows to tasks without repartitionById


def test_classes_lie_elsewhere_in_4_0() -> None:
    names: list[Callable[[Spark43], str]] = [
        lambda version: version.micro_batch,
        lambda version: version.stateful_operator,
        lambda version: version.local_checkpoints,
        lambda version: version.python_state,
    ]
    assert all(name(Spark40()) != name(Spark41()) == name(Spark43()) for name in names)


def test_the_hash_is_sparks() -> None:
    assert {number: spark_4_0._murmur3(number) for number in SPARK_HASHES} == SPARK_HASHES


@pytest.mark.parametrize("tasks", [1, 2, 3, 7, 64, 500])
def test_each_task_has_a_number_that_leads_to_it(tasks: int) -> None:
    numbers = numbers_of_tasks(tasks)
    assert [spark_4_0._murmur3(number) % tasks for number in numbers] == list(range(tasks))
