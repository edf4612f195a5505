"""Runs a program that does not end by itself, and presses Ctrl-C when a topic has so many rows: ``SERVERS TOPIC ROWS
PROGRAM ARGUMENT ...``.
"""

import signal
import subprocess
import sys
import time

from semel.testing import arrived

_PATIENCE_S, _POLL_S = 240.0, 0.2

servers, topic, rows, *program = sys.argv[1:]
process = subprocess.Popen(program)
end = time.monotonic() + _PATIENCE_S
while arrived(servers, topic) < int(rows):
    if process.poll() is not None or time.monotonic() > end:
        process.kill()
        sys.exit(f"{program} ended with {process.wait()} before {topic} had {rows} rows")
    time.sleep(_POLL_S)
process.send_signal(signal.SIGINT)
process.wait(_PATIENCE_S)
