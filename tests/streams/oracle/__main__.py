"""Ask Kafka Streams' own test driver about random cases, and keep its answers."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from semel.sandbox import find_java, ivy, jars
from tests.streams.oracle.answers import BAD, FILE, NEW, SECOND, TABLES, THIRD, VERSIONS
from tests.streams.oracle.cases import Case, case

HERE = Path(__file__).parent

COUNT = 2_000
_PARTS = [("org.apache.kafka", "kafka-streams-test-utils", jars.DEFAULT_VERSION)]


def asked(cases: Sequence[Case]) -> Iterator[Case]:
    """Yield each case with its ``topics`` and ``changelogs``."""
    home = jars.cache_directory() / "kafka-streams-test" / jars.DEFAULT_VERSION
    path = os.pathsep.join(map(str, ivy.kept(home, _PARTS, "Kafka Streams' test driver", progress=False, whole=True)))
    command = [str(find_java()), "-cp", path, str(HERE / "Answers.java")]
    lines = "".join(json.dumps(one) + "\n" for one in cases)
    answers = subprocess.run(command, input=lines, text=True, check=True, stdout=subprocess.PIPE).stdout
    for one, answer in zip(cases, answers.rstrip("\n").split("\n"), strict=True):
        yield {**one, **json.loads(answer)}


def write(file: Path, cases: Sequence[Case]) -> None:
    """Write the answers to a file beside this one."""
    with lzma.open(file, "wt", encoding="utf-8", newline="\n") as lines:
        for one in asked(cases):
            lines.write(json.dumps(one, separators=(",", ":")) + "\n")


def main(which: str = "all") -> None:
    """Ask about the words of a release, of tables or versions, about bad records, the new ones, or all."""
    if which in ("all", "first"):
        write(FILE, [case(seed) for seed in range(COUNT)])
    if which in ("all", "second"):
        write(SECOND, [case(seed, "second") for seed in range(COUNT // 2)])
    if which in ("all", "bad"):
        write(BAD, [case(seed, "bad") for seed in range(COUNT // 4)])
    if which in ("all", "tables"):
        write(TABLES, [case(seed, "tables") for seed in range(COUNT // 2)])
    if which in ("all", "new"):
        write(NEW, [case(seed, "new") for seed in range(COUNT // 2)])
    if which in ("all", "third"):
        write(THIRD, [case(seed, "third") for seed in range(COUNT // 2)])
    if which in ("all", "versions"):
        write(VERSIONS, [case(seed, "versions") for seed in range(COUNT // 10)])


if __name__ == "__main__":
    main(*sys.argv[1:])
