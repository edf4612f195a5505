"""The log of a slot as it is streamed: PostgreSQL's replication protocol, over psycopg's libpq.

psycopg has no replication of its own; libpq has all that it takes. The server sends whole transactions, and keeps what
was not confirmed. Nothing is held here but what libpq has received: a huge transaction waits on the server.
"""

from __future__ import annotations

import select
import struct
import time
from typing import TYPE_CHECKING, NamedTuple

from semel.connect.connectors.postgres.connection import Address, lost_database
from semel.errors import SemelError

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

__all__ = ["LogStream", "Logged"]

_DATA = struct.Struct(">QQq")
_KEEPALIVE = struct.Struct(">QqB")
_STATUS = struct.Struct(">cQQQqB")
_EPOCH_S = 946_684_800
#: How often the server hears that this reader lives. It gives up after ``wal_sender_timeout``, 60 s by default.
_STATUS_S = 1.0


class Logged(NamedTuple):
    """A message of the output plugin, and its position in the log."""

    lsn: int
    data: bytes


class LogStream:
    """Stream of a slot from a position on."""

    def __init__(self, address: Address, slot: str, publication: str, start_lsn: int) -> None:
        self._address, self._slot = address, slot
        self._pg: PGconn = address.replication()
        #: Up to where the log is done with: the server may remove it.
        self.confirmed = start_lsn
        #: Up to where the server has sent all that it has.
        self.server_end = start_lsn
        self._sent = time.monotonic()
        self._start(publication, start_lsn)

    def _start(self, publication: str, start_lsn: int) -> None:
        from psycopg import pq

        options = f"proto_version '1', publication_names '{_quoted(publication)}'"
        lsn = f"{start_lsn >> 32:X}/{start_lsn & 0xFFFFFFFF:X}"
        self._pg.send_query(f'START_REPLICATION SLOT "{self._slot}" LOGICAL {lsn} ({options})'.encode())
        result = None
        while result is None or result.status != pq.ExecStatus.COPY_BOTH:
            result = self._pg.get_result()
            if result is None or result.status != pq.ExecStatus.COPY_BOTH:
                message = (result.error_message if result is not None else self._pg.error_message).decode()
                self.close()
                raise self._refused(message)

    def _refused(self, message: str) -> SemelError:
        return lost_database(f"the log of slot {self._slot}", message)

    def next(self, wait_s: float) -> Logged | None:
        """Return the next message; None where none came within this time. Raises what says that the server is gone."""
        end = time.monotonic() + wait_s
        while True:
            logged = self._received()
            if logged is not None:
                return logged
            self._report_if_due()
            left = max(0.0, end - time.monotonic())
            if select.select([self._pg.socket], [], [], left)[0]:
                self._consume()
            elif left == 0:
                return None

    def _received(self) -> Logged | None:
        """Return what libpq has, and answer the server's questions."""
        while True:
            length, data = self._pg.get_copy_data(1)
            if length == 0:
                return None
            if length < 0:
                raise self._lost()
            message = bytes(data)
            if message[0] == ord("w"):
                lsn, _, _ = _DATA.unpack_from(message, 1)
                return Logged(lsn, message[25:])
            if message[0] == ord("k"):
                end, _, wanted = _KEEPALIVE.unpack_from(message, 1)
                self.server_end = max(self.server_end, end)
                if wanted:
                    self.report()

    def _consume(self) -> None:
        from psycopg import OperationalError

        try:
            self._pg.consume_input()
        except OperationalError as error:
            raise lost_database(f"the log of slot {self._slot}", str(error)) from error

    def confirm(self, lsn: int) -> None:
        """Let the server remove the log up to here."""
        self.confirmed = max(self.confirmed, lsn)
        self._report_if_due()

    def _report_if_due(self) -> None:
        if time.monotonic() - self._sent >= _STATUS_S:
            self.report()

    def report(self) -> None:
        """Tell the server how far the log is done with."""
        from psycopg import OperationalError

        moment = int((time.time() - _EPOCH_S) * 1_000_000)
        try:
            self._pg.put_copy_data(_STATUS.pack(b"r", self.confirmed, self.confirmed, self.confirmed, moment, 0))
            self._pg.flush()
        except OperationalError as error:
            raise lost_database(f"the log of slot {self._slot}", str(error)) from error
        self._sent = time.monotonic()

    def _lost(self) -> SemelError:
        result = self._pg.get_result()
        message = result.error_message if result is not None else b""
        return self._refused((message or self._pg.error_message).decode())

    def close(self) -> None:
        """Leave the slot."""
        self._pg.finish()


def _quoted(name: str) -> str:
    """Return a name of a publication in a list of them, inside of a literal."""
    return '"{}"'.format(name.replace('"', '""')).replace("'", "''")
