"""``OutboxUnit``: what a user holds inside ``with outbox.unit()``."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlalchemy.orm import Session

from semel.errors import SemelError
from semel.transaction.two_phase.prepared import Prepared
from semel.transaction.two_phase.unit import Unit

__all__ = ["OutboxUnit"]


class OutboxUnit:
    """The session for the rows of the database, and :meth:`send` for those of Kafka: both or neither.

    The unit is decided when the ``with`` block ends, not by ``session.commit()``, which only flushes. ``skipped`` is
    whether its version was committed before: then nothing of it is written again, whatever the block does.

    ``progress`` is a text of yours that the newest unit has left, None at first: how far you have read your source, for
    example. Set it, and it is kept with this unit, or not at all.
    """

    def __init__(self, session: Session, begin: Callable[[], Unit], progress: str | None, *, skipped: bool) -> None:
        self.session = session
        self.progress = progress
        self.skipped = skipped
        self._begin = begin
        self._unit: Unit | None = None

    def send(self, topic: str, rows: pa.Table | pa.RecordBatch) -> None:
        """Write rows to Kafka, acknowledged when it returns. Columns as for ``Transaction.send``.

        The first call takes a transactional id. Raises what the rows or the brokers make it raise: the unit ends then,
        with nothing written to either.
        """
        if self.skipped:
            return
        if self._unit is None:
            self._unit = self._begin()
        self._unit.send(topic, rows)

    def _prepare(self) -> Prepared | None:
        """Prepare the Kafka rows. None where there are none."""
        prepared = self._unit.prepare() if self._unit is not None else None
        self._unit = None
        return prepared if prepared is not None and prepared.rows else None

    def _discard(self, raised: BaseException) -> None:
        """Abort the Kafka rows that are not prepared. What fails in it is noted at ``raised``."""
        if self._unit is None:
            return
        try:
            self._unit.abort()
        except SemelError as second:
            raised.add_note(f"The Kafka transaction could not be aborted either: {second}")
