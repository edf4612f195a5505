"""``semel connect`` refuses what is wrong before it starts Spark."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semel import cli
from semel.errors import SemelError

WORKER = """bootstrap.servers=localhost:9092
group.id=g
offset.storage.topic=offsets
key.converter=StringConverter
value.converter=StringConverter
"""


def run(directory: Path, worker: str, connector: str, *options: str) -> str:
    """What it says, by its error where it raises one."""
    (directory / "worker.properties").write_text(worker)
    (directory / "connector.properties").write_text(connector)
    files = [str(directory / f"{name}.properties") for name in ("worker", "connector")]
    done = CliRunner().invoke(cli.app, ["connect", *options, *files])
    assert done.exit_code != 0
    return str(done.exception) if isinstance(done.exception, SemelError) else done.output


@pytest.mark.parametrize(
    ("worker", "connector", "said"),
    [
        (WORKER + "rest.port=8083\n", "", "[SEMEL_NOT_YET] rest.port is not there yet"),
        (WORKER, "name=a\nconnector.class=FileStreamSource\n", 'Missing required configuration "file"'),
        (WORKER, "name=\\uzzzz", "connector.properties cannot be read"),
    ],
)
def test_properties(tmp_path: Path, worker: str, connector: str, said: str) -> None:
    assert said in run(tmp_path, worker, connector)


def test_a_setting_of_spark_without_a_value(tmp_path: Path) -> None:
    assert "is not NAME=VALUE" in run(tmp_path, WORKER, "", "--conf", "spark.cores.max")


def test_a_class_in_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "of_its_own.py").write_text(
        "from semel.connect import SourceConnector\nclass Mine(SourceConnector):\n    config = {'table': str}\n"
    )
    connector = "name=mine\nconnector.class=of_its_own.Mine\n"
    assert "--py-files" in run(tmp_path, WORKER, connector)
    said = run(tmp_path, WORKER, connector, "--py-files", str(tmp_path / "of_its_own.py"))
    assert "connector 'mine': Missing required configuration \"table\"" in said
