"""``python -m semel.sandbox [VERSION ...]``: fetch Kafka into the cache, with progress on the terminal. ``make`` runs
it before the tests.

For the default version, the classes are parsed too, for brokers that start quickly.
"""

import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from semel.errors import SemelError
from semel.sandbox import class_archive
from semel.sandbox.cluster import FAST_JVM, Sandbox
from semel.sandbox.jars import chosen_version, install_all

#: Seconds for a Java that writes its classes down before it ends.
_PATIENCE_S = 120.0


def _archive(version: str) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="semel-kafka-") as directory,
        class_archive.writing(version) as options,
        Sandbox.start(version=version, directory=Path(directory), jvm=(*FAST_JVM, *options)) as sandbox,
    ):
        sandbox.nodes[0].stop(_PATIENCE_S)


if __name__ == "__main__":
    try:
        install_all(sys.argv[1:] or [chosen_version()], progress=True)
        if not sys.argv[1:] and not class_archive.exists(chosen_version()):
            _archive(chosen_version())
    except SemelError as error:
        Console(stderr=True, soft_wrap=True).print(Text(str(error), style="red"))
        sys.exit(1)
