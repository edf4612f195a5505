"""``python -m semel.sandbox [VERSION]``: have Kafka in the cache, shown while it is fetched. ``make`` runs it before the tests."""

import sys

from rich.console import Console
from rich.text import Text

from semel.errors import SemelError
from semel.sandbox.jars import DEFAULT_VERSION, install

if __name__ == "__main__":
    try:
        install(sys.argv[1] if len(sys.argv) > 1 else DEFAULT_VERSION, progress=True)
    except SemelError as error:
        Console(stderr=True, soft_wrap=True).print(Text(str(error), style="red"))
        sys.exit(1)
