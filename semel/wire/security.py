"""What lies between a TCP socket and Kafka's frames: nothing yet, later TLS and SASL.

:func:`secure` is called once for each new connection, before the first frame, and returns the socket to go on with. A secured one
goes in here, and nothing above notices.
"""

from __future__ import annotations

import socket

from semel.config import ClientConfig
from semel.errors import Unsupported

__all__ = ["secure"]


def secure(raw: socket.socket, config: ClientConfig) -> socket.socket:
    """The socket that frames go through. Raises :class:`Unsupported` for a protocol that is not there yet."""
    if config.security_protocol != "PLAINTEXT":
        raise Unsupported(f"security.protocol={config.security_protocol} is not there yet. Nothing was sent. Use a PLAINTEXT listener.")
    return raw
