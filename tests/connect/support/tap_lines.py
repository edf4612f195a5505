"""A Singer tap, by the specification: the lines of a file as records of the stream ``lines``, and a STATE each ten.

Its bookmark is nested, as taps have it. Its config: ``file``; ``pids``, to which it adds its own; ``hold``, a file that
makes it wait behind the record ``at``, between two STATEs, for as long as it is there; ``says``, a line behind the last
STATE.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    for option in ("--config", "--state", "--catalog"):
        parser.add_argument(option)
    given = parser.parse_args()
    config = json.loads(Path(given.config).read_text())
    state = json.loads(Path(given.state).read_text()) if given.state else {}
    done = state.get("bookmarks", {}).get("lines", {}).get("count", 0)
    with Path(config["pids"]).open("a") as pids:
        pids.write(f"{os.getpid()}\n")
    say(
        type="SCHEMA",
        stream="lines",
        schema={"type": "object", "properties": {"id": {"type": "integer"}, "text": {"type": "string"}}},
        key_properties=["id"],
    )
    lines = Path(config["file"]).read_text().splitlines()
    for number, text in enumerate(lines):
        if number < done:
            continue
        say(type="RECORD", stream="lines", record={"id": number, "text": text})
        while number == config.get("at") and Path(config["hold"]).exists():
            time.sleep(0.05)
        if (number + 1) % 10 == 0 or number + 1 == len(lines):
            say(type="STATE", value={"bookmarks": {"lines": {"count": number + 1}}})
    if config.get("says"):
        print(config["says"], flush=True)
    if config.get("status"):
        print("the source said no", file=sys.stderr)
        sys.exit(config["status"])
    if config.get("careless"):
        say(type="RECORD", stream="lines", record={"id": -1, "text": "behind the last STATE"})


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


main()
