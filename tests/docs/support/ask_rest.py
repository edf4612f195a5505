"""Runs a worker of Connect, creates a connector by REST as curl would, and presses Ctrl-C when a topic has so many
rows: ``SERVERS TOPIC ROWS JSON PROGRAM ARGUMENT ...``.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from semel.testing import arrived

_PATIENCE_S, _POLL_S = 240.0, 0.2

servers, topic, rows, body, *program = sys.argv[1:]
process = subprocess.Popen(program)
end = time.monotonic() + _PATIENCE_S
created = False
while not created or arrived(servers, topic) < int(rows):
    if process.poll() is not None or time.monotonic() > end:
        process.kill()
        sys.exit(f"{program} ended with {process.wait()} before {topic} had {rows} rows")
    if not created:
        try:
            request = Request(
                "http://127.0.0.1:8083/connectors", Path(body).read_bytes(), {"Content-Type": "application/json"}
            )
            with urlopen(request, timeout=60) as answer:
                created = answer.status == 201
        except URLError:
            pass
    time.sleep(_POLL_S)
process.send_signal(signal.SIGINT)
process.wait(_PATIENCE_S)
