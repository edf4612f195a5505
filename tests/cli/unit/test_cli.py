"""The program's frame: commands are imported when they are asked for, and errors of ours are messages."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from semel import __version__, cli


def commands(group: Any, *path: str) -> Iterator[tuple[str, Any]]:
    """Each command that does something, with its words."""
    for name in group.list_commands(typer.Context(group)):
        one = group.get_command(typer.Context(group), name)
        if hasattr(one, "list_commands"):
            yield from commands(one, *path, name)
        elif not (one.help or "").endswith("Not available yet."):
            yield " ".join(("semel", *path, name)), one


EVERY_COMMAND = dict(commands(typer.main.get_command(cli.app)))


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_help_teaches_every_command() -> None:
    shown = CliRunner().invoke(cli.app, ["--help"])
    assert shown.exit_code == 0
    for name in cli.COMMANDS:
        assert name in shown.output
    assert "exactly-once" in shown.output


@pytest.mark.parametrize("words", EVERY_COMMAND)
def test_each_command_has_an_example_with_its_own_options(words: str) -> None:
    command = EVERY_COMMAND[words]
    text = (command.epilog or "").replace("\\\n", "")
    examples = [line for line in text.splitlines() if line.startswith("semel ")]
    assert examples != [], "an example to copy"
    for example in examples:
        typed = example if example.startswith(words) else example.replace("semel mirror", "semel mirror run", 1)
        assert typed.startswith(words)
        command.make_parser(typer.Context(command)).parse_args(shlex.split(typed.removeprefix(words), comments=True))


@pytest.mark.parametrize("words", ["semel", *EVERY_COMMAND])
def test_each_help_fits_80_columns(words: str) -> None:
    shown = CliRunner().invoke(cli.app, [*words.split()[1:], "--help"], env={"COLUMNS": "80", "TERM": "dumb"})
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if "…" in line] == [], "nothing is cut off"


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
