"""An address that a server listens on."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

from semel.errors import ConfigError

__all__ = ["Listener", "http_address"]

_BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Listener:
    """A host and a port. An empty host is all addresses of the machine, port 0 any that is free."""

    host: str
    port: int
    tls: bool = False

    def listen(self) -> socket.socket:
        """Take the port. Raises :class:`ConfigError` for one that cannot be had."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((self.host, self.port))
            made.listen(_BACKLOG)
        except OSError as error:
            made.close()
            why = "another program has it" if error.errno == errno.EADDRINUSE else error.strerror
            raise ConfigError(
                f"{http_address(self.host, self.port)} cannot be listened on: {why}. Nothing was started. Stop that"
                " program, or give another address.",
                tag="LISTENER",
            ) from error
        return made


def http_address(host: str, port: int | str, scheme: str = "http") -> str:
    """Return the URL of a host and a port."""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
