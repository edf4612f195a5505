"""The side on the executor: connect to the driver, ask for work, do it, report the end.

A process ends at once if its driver is lost or ends it: its successor settles unfinished work.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import threading
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from semel.errors import AbortAndRetry, ConfigError, Retriable, SemelError, named
from semel.same_version import check_same_version

__all__ = ["Process", "run_in_task"]

_OPEN_S = 30.0
#: Seconds to wait until the driver confirms the report of the end.
_FAREWELL_S = 10.0
#: Seconds for an answer of the driver: it may have to ask the cluster.
_ANSWER_S = 120.0
_MAX_BYTES = 16 << 20
_ENDED: dict[str, Any] = {"type": "ended", "error": "", "trace": "", "again": False}


class Process:
    """The argument of an entry function.

    ``settings`` are those of its launch. Once ``stopping`` is set, the function should return soon.
    """

    def __init__(self, settings: Mapping[str, Any], connection: ClientConnection) -> None:
        self.settings = settings
        self.stopping = threading.Event()
        self._connection = connection
        self._answers: dict[int, SimpleQueue[Mapping[str, Any]]] = {}
        self._numbers = count()

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send the owner a message, as JSON. Do not wait until it arrives."""
        with suppress(ConnectionClosed):  # the process is about to end
            self._connection.send(json.dumps({"type": "told", "message": message}))

    def ask(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the owner something, and wait for its answer. Raise the owner's error, if it is one of semel's."""
        number = next(self._numbers)
        answers = self._answers[number] = SimpleQueue[Mapping[str, Any]]()
        with suppress(ConnectionClosed):  # the process is about to end
            self._connection.send(json.dumps({"type": "ask", "number": number, "message": message}))
        try:
            answer = answers.get(timeout=_ANSWER_S)
        except Empty:
            raise Retriable(
                f"the driver did not answer within {_ANSWER_S:.0f} s. Nothing was written. It is asked again.",
                tag="NO_ANSWER",
            ) from None
        finally:
            del self._answers[number]
        if "error" in answer:
            raise named(answer["class"], answer["error"], answer["tag"])
        return answer

    def _answered(self, answer: Mapping[str, Any]) -> None:
        self._answers[answer["number"]].put(answer["message"])


def run_in_task(address: str, token: str, _rows: Iterable[object] = ()) -> None:
    """Run the process of one launch, in a Spark task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    run(address, token, context.taskAttemptId() if context is not None else 0)


def run(address: str, token: str, attempt: int) -> None:
    """Connect, and do what the driver says. End the whole process if the driver is lost."""
    with connect(
        f"ws://{address}",
        additional_headers={"Authorization": f"Bearer {token}"},
        open_timeout=_OPEN_S,
        compression=None,
        max_size=_MAX_BYTES,
        proxy=None,
    ) as connection:
        hello = {"type": "hello", "attempt": attempt, "host": socket.gethostname(), "pid": os.getpid()}
        connection.send(json.dumps(hello))
        work = json.loads(connection.recv(_OPEN_S))
        if work["type"] == "end":  # a later attempt is at work, or this launch is not wanted any more
            return
        process = Process(work.get("settings", {}), connection)
        finished, heard = threading.Event(), threading.Event()
        threading.Thread(target=_listen, args=(process, finished, heard), name="semel-process", daemon=True).start()
        # asked to stop before it was given work, it has ended well
        outcome = _outcome(work, process) if work["type"] == "run" else _ENDED
        finished.set()
        with suppress(ConnectionClosed):
            connection.send(json.dumps(outcome))
            heard.wait(_FAREWELL_S)


def _listen(process: Process, finished: threading.Event, heard: threading.Event) -> None:
    kind = ""
    while kind != "end":
        try:
            message = json.loads(process._connection.recv())
            kind = message["type"]
        except ConnectionClosed:
            kind = "end"
        if kind == "stop":
            process.stopping.set()
        elif kind == "answer":
            with suppress(KeyError):  # no call waits for it any more
                process._answered(message)
    if finished.is_set():
        heard.set()
    else:
        os._exit(1)  # the main thread may be anywhere, and must not write any more


def _outcome(work: Mapping[str, Any], process: Process) -> dict[str, Any]:
    try:
        check_same_version(work["version"], "this launch")
        _entry(work["entry"])(process)
    except BaseException as error:  # report every error to the driver
        # traces of nested causes may be long, and the first lines say the least
        trace = "".join(traceback.format_exception(error))[-100_000:]
        text = str(error) if isinstance(error, SemelError) else f"{type(error).__name__}: {error}"
        again = isinstance(error, Retriable | AbortAndRetry)
        return {"type": "ended", "error": text or type(error).__name__, "trace": trace, "again": again}
    return _ENDED


def _entry(name: str) -> Any:
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as missing:
        raise ConfigError(
            f"{name} cannot be imported on the executor ({missing}). Nothing was started. Install it there, or send it"
            " with --py-files.",
            tag="ENTRY_MISSING",
        ) from missing
