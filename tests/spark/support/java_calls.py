"""What this process asks its JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from py4j.java_gateway import GatewayClient
from py4j.protocol import MEMORY_COMMAND_NAME


@contextmanager
def calls_of_the_jvm() -> Iterator[list[str]]:
    """What this process asks its JVM, without what it lets go of."""
    asked: list[str] = []
    send = GatewayClient.send_command

    def listening(client: GatewayClient, command: str, *args: Any, **named: Any) -> Any:
        if not command.startswith(MEMORY_COMMAND_NAME):
            asked.append(command)
        return send(client, command, *args, **named)

    with patch.object(GatewayClient, "send_command", listening):
        yield asked
