"""Position of a reader in a database: in the log, and in a snapshot while its rows and the log meet.

A snapshot may take several sessions: after a crash the rest is read by a new one, which sees a later state. Each
session has a range of tables and keys, and PostgreSQL's own name of what it saw (``pg_current_snapshot``). A
transaction of the log is passed over for a row if the session that read the row had seen that transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from semel.errors import DataLoss

__all__ = ["Position", "Session", "SnapshotState", "lsn_text"]

_XIDS = 1 << 32


def lsn_text(lsn: int) -> str:
    """Return a position in the log as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


@dataclass(frozen=True, slots=True)
class Session:
    """What one session of a snapshot saw, and the last row that it covers: a table and its key; None for all the rest.

    All transactions that it saw had ended before ``lsn``.
    """

    seen: str
    lsn: int
    last: tuple[str, list[str]] | None = None

    def saw(self, xid: int, commit_lsn: int) -> bool:
        """Return whether a transaction of the log is in what this session saw. Its number has 32 bits in the log."""
        if commit_lsn > self.lsn:
            return False
        low, high, running = self.seen.split(":")
        near = int(high)
        full = near + (xid - near + _XIDS // 2) % _XIDS - _XIDS // 2
        if full < int(low):
            return True
        return full < near and str(full) not in running.split(",")


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """Tables of a snapshot in their order, its sessions, and the last row that was read."""

    tables: tuple[str, ...]
    sessions: tuple[Session, ...]
    at: tuple[str, list[str]] | None = None
    done: bool = False

    def cut(self) -> tuple[Session, ...]:
        """Return the sessions so far, ended at the last row that was read: the next one begins there."""
        if self.at is None:
            return ()
        *before, current = self.sessions
        return (*before, replace(current, last=self.at))

    @property
    def lsn(self) -> int:
        """From here on, no session has seen a transaction of the log."""
        return max(one.lsn for one in self.sessions)

    def sessions_of(self, table: str) -> list[Session]:
        """Return the sessions that read rows of a table, in the order of its keys; none of another table."""
        if table not in self.tables:
            return []
        place, made = self.tables.index(table), []
        for session in self.sessions:
            end = len(self.tables) if session.last is None else self.tables.index(session.last[0])
            if end < place:
                continue
            made.append(session if end == place else replace(session, last=None))
            if end > place:
                break
        return made

    def text(self) -> str:
        """Return it as JSON."""
        sessions = [[one.seen, one.lsn, one.last] for one in self.sessions]
        return json.dumps([self.tables, sessions, self.at, self.done], separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> SnapshotState:
        """Read the JSON."""
        tables, sessions, at, done = json.loads(text)
        made = tuple(Session(seen, lsn, (last[0], last[1]) if last else None) for seen, lsn, last in sessions)
        return cls(tuple(tables), made, (at[0], at[1]) if at else None, done)


@dataclass(frozen=True, slots=True)
class Position:
    """Position that a task resumes at.

    ``lsn`` is the end of the last whole transaction. ``transaction`` is where the commit of the next one is, if
    ``index`` of its changes are done.
    """

    lsn: int
    transaction: int = 0
    index: int = 0
    snapshot: SnapshotState | None = None
    #: The records of the transaction so far, by table, where they carry their number.
    counts: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> Position:
        """Read an offset. Raise :class:`DataLoss` for one of something else."""
        try:
            lsn, transaction, index = (
                int(offset[name]) for name in ("lsn_commit", "transaction_lsn", "transaction_index")
            )
            text = offset.get("snapshot_state")
            state = SnapshotState.parse(text) if text else None
            return cls(lsn, transaction, index, state, json.loads(offset.get("transaction_counts", "{}")))
        except (KeyError, TypeError, ValueError):
            raise DataLoss(
                f"the offset {dict(offset)!r:.200} is not one of PostgresCdcSource. Nothing was read. Give the"
                " connector another name: it begins with a snapshot then.",
                tag="OFFSET_DAMAGED",
            ) from None

    def offset(self) -> dict[str, Any]:
        """Return the offset as it is stored: flat."""
        made: dict[str, Any] = {
            "lsn_commit": self.lsn,
            "transaction_lsn": self.transaction,
            "transaction_index": self.index,
        }
        if self.counts:
            made["transaction_counts"] = json.dumps(self.counts, separators=(",", ":"))
        if self.snapshot is not None:
            made["snapshot_state"] = self.snapshot.text()
        return made
