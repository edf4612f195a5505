"""``python -m semel.sandbox [VERSION ...]``: have Kafka in the cache, shown while it is fetched. ``make`` runs it before the tests."""

import sys

from rich.console import Console
from rich.text import Text

from semel.errors import SemelError
from semel.sandbox.jars import chosen_version, install_all

if __name__ == "__main__":
    try:
        install_all(sys.argv[1:] or [chosen_version()], progress=True)
    except SemelError as error:
        Console(stderr=True, soft_wrap=True).print(Text(str(error), style="red"))
        sys.exit(1)
