"""``OutboxUnit``: the object of ``with outbox.unit()``."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

from semel.errors import ConfigError, SemelError
from semel.transaction.two_phase.prepared import Prepared
from semel.transaction.two_phase.unit import Unit

__all__ = ["OutboxUnit"]


class OutboxUnit:
    """The session for the rows of the database, and :meth:`send` for the rows of Kafka: both or neither.

    The unit is decided when the ``with`` block ends, not by ``session.commit()``, which only flushes. ``skipped`` is
    True if its version was committed before: then nothing of it is written again, whatever the block does.

    ``progress`` is your text from the newest unit, None at first: the position in your source, for example. If you set
    it, it is kept with this unit, or not at all.
    """

    def __init__(self, session: Session, begin: Callable[[], Unit], progress: str | None, *, skipped: bool) -> None:
        self.session = session
        self.progress = progress
        self.skipped = skipped
        self._begin = begin
        self._unit: Unit | None = None
        self._torn = False
        event.listen(session, "after_soft_rollback", self._rolled_back)

    def send(self, topic: str, rows: pa.Table | pa.RecordBatch) -> None:
        """Write rows to Kafka, acknowledged when it returns. Columns as for ``Transaction.send``.

        The first call takes a transactional id. Errors of the rows or the brokers are raised. The unit ends then, with
        nothing written to either.
        """
        if self.skipped:
            return
        if self._unit is None:
            self._unit = self._begin()
        self._unit.send(topic, rows)

    def _rolled_back(self, _: Session, ended: SessionTransaction) -> None:
        """Note that the session was rolled back: Kafka rows that were sent before are not undone."""
        self._torn |= ended.parent is None and self._unit is not None

    def _prepare(self) -> Prepared | None:
        """Prepare the Kafka rows. None if there are none. Raise :class:`ConfigError` if their database rows were rolled
        back.
        """
        if self._torn:
            raise ConfigError(
                "the session was rolled back after rows were sent to Kafka, so these would be there without their rows"
                " in the database. Nothing of the unit was written. Run it again; to undo a part of it, use"
                " session.begin_nested().",
                tag="UNIT_ROLLED_BACK",
            )
        prepared = self._unit.prepare() if self._unit is not None else None
        self._unit = None
        return prepared if prepared is not None and prepared.rows else None

    def _discard(self, raised: BaseException) -> None:
        """Abort the Kafka rows that are not prepared. Add a failure of that to ``raised`` as a note."""
        if self._unit is None:
            return
        try:
            self._unit.abort()
        except SemelError as second:
            raised.add_note(f"The Kafka transaction could not be aborted either: {second}")
