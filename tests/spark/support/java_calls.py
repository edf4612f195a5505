"""What this process asks its JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from py4j.java_gateway import GatewayClient
from py4j.protocol import MEMORY_COMMAND_NAME

from semel.wire.deadline import Deadline


@contextmanager
def calls_of_the_jvm() -> Iterator[list[str]]:
    """What this process asks its JVM, without what it lets go of. What it asks again after a wait counts once: how
    often Spark's books of its jobs are late depends on the machine.
    """
    asked: list[str] = []
    send, attempts = GatewayClient.send_command, Deadline.attempts

    def listening(client: GatewayClient, command: str, *args: Any, **named: Any) -> Any:
        if not command.startswith(MEMORY_COMMAND_NAME):
            asked.append(command)
        return send(client, command, *args, **named)

    def counting_the_last(deadline: Deadline) -> Iterator[None]:
        before = len(asked)
        for attempt in attempts(deadline):
            del asked[before:]
            yield attempt

    with patch.object(GatewayClient, "send_command", listening), patch.object(Deadline, "attempts", counting_the_last):
        yield asked
