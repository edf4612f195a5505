"""Shell blocks of the pages, run as a reader types them into the checkout, with nothing of this project's tests on the
way.

A ``console`` block is a session: commands behind ``$ ``, what they print, and what is typed behind their questions. A
``bash`` block is commands alone, and so are the ``RUN`` lines of a ``dockerfile``.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from semel.sandbox import chosen_version
from semel.sandbox.jars import cache_directory, classpath
from semel.sandbox.java import find_java

ROOT = Path(__file__).parents[3]
#: What of a checkout the pages speak of.
_CHECKOUT = ("semel", "pyspark_semel", "examples", "pyproject.toml", "README.md", "LICENSE")
#: Launchers of Kafka's archive, which its jars come without.
_TOOLS = {"kafka-acls.sh": "AclCommand", "kafka-topics.sh": "TopicCommand"}
#: What the tests give to their own programs.
_OURS = ("PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV")
#: For a Java that lives for a few seconds.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_QUESTION = re.compile(r"(?P<asked>.+(?:\[y/N\]|\(commit, abort\)): )(?P<typed>\w+)")
_PATIENCE_S = 540


class Shell:
    """One reader's shell: a checkout as its folder, the environment of ``.venv``, and a cache folder in which Kafka is
    there already.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in _CHECKOUT:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder / name)
        (folder / "cache").mkdir()
        (folder / "cache" / "kafka").symlink_to(cache_directory() / "kafka")
        (folder / "bin").mkdir()
        for name, tool in _TOOLS.items():
            launcher = folder / "bin" / name
            launcher.write_text(
                f'#!/bin/sh\nexec {find_java()} -cp "{classpath(chosen_version())}" org.apache.kafka.tools.{tool}'
                ' "$@"\n'
            )
            launcher.chmod(0o755)

    def run(self, script: str, typed: str = "") -> str:
        """Run a script, and return all its output. Raise :class:`AssertionError` with it if a command fails."""
        argv = ["bash", "-e", "-o", "pipefail", "-c", script]
        variables = {**outside(), "SEMEL_CACHE": str(self.folder / "cache"), "COLUMNS": "160"}
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "text": True,
        }
        with subprocess.Popen(argv, cwd=self.folder, env=variables, start_new_session=True, **pipes) as process:
            try:
                printed, _ = process.communicate(typed, timeout=_PATIENCE_S)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)  # what a command has started would go on without it
                raise
        assert process.returncode == 0, f"status {process.returncode} of:\n{script}\n{printed[-6000:]}"
        return str(printed)


def outside() -> dict[str, str]:
    """Return the environment of programs outside of these tests: ``.venv`` is active, servers are on this machine only,
    Java compiles little.
    """
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    others = {name: value for name, value in os.environ.items() if name not in _OURS}
    return {
        **others,
        "PATH": programs,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": BRIEF,
        "SPARK_DAEMON_JAVA_OPTS": BRIEF,
    }


def session(block: str) -> tuple[str, str, list[str]]:
    """Parse a ``console`` block: its commands, the answers to their questions, and the lines that it shows."""
    commands, typed, printed, goes_on = [], [], [], False
    for line in block.splitlines():
        if line.startswith("$ ") or goes_on:
            commands.append(line.removeprefix("$ "))
            goes_on = line.endswith("\\")
        elif question := _QUESTION.fullmatch(line):
            typed.append(question["typed"])
            printed.append(question["asked"])
        elif line.strip() and line != "...":
            printed.append(line)
    return "\n".join(commands), "".join(f"{answer}\n" for answer in typed), printed


def steps(block: str) -> str:
    """Return the commands of a Dockerfile."""
    lines = block.replace("\\\n", " ").splitlines()
    return "\n".join(line.removeprefix("RUN ") for line in lines if line.startswith("RUN "))


def squeezed(text: str, *, numbers: bool = True) -> str:
    """Without widths of columns and line breaks, ids and tokens; and without ``numbers``, if they are not to be
    compared.
    """
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<id>", text)
    text = re.sub(r"\bcheckpoint:[0-9a-f]{16}\b", "checkpoint:<token>", text)
    return re.sub(r"\s+", " ", text if numbers else re.sub(r"\d+(,\d{3})*", "#", text)).strip()
