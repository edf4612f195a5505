"""The program's frame: commands are imported when they are asked for, and errors of ours are messages."""

from __future__ import annotations

import subprocess
import sys

from typer.testing import CliRunner

from semel import __version__, cli


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_help_teaches_every_command() -> None:
    shown = CliRunner().invoke(cli.app, ["--help"])
    assert shown.exit_code == 0
    for name in cli.COMMANDS:
        assert name in shown.output
    assert "Exactly-once" in shown.output


def test_the_version() -> None:
    assert CliRunner().invoke(cli.app, ["--version"]).output == f"semel {__version__}\n"


def test_an_unknown_command_is_refused() -> None:
    shown = CliRunner().invoke(cli.app, ["brokr"])
    assert shown.exit_code == 2
    assert "brokr" in shown.output


def test_commands_are_imported_when_asked_for() -> None:
    done = python("import sys, semel.cli; print([name for name in semel.cli.COMMANDS.values() if name in sys.modules])")
    assert done.stdout == "[]\n"


def test_importing_semel_imports_no_program() -> None:
    done = python("import sys, semel; print({'typer', 'rich', 'pyspark', 'pyarrow'} & set(sys.modules))")
    assert done.stdout == "set()\n"


def test_an_error_of_ours_is_its_message() -> None:
    done = python(
        "import sys; sys.argv = ['semel', 'broker', 'start', '--version', 'four']; from semel.cli import main; main()"
    )
    assert done.returncode == 1
    assert done.stderr.startswith("[SEMEL_KAFKA_VERSION] 'four' is no version of Kafka")
    assert "Traceback" not in done.stderr
