"""``Takeover``: how an outbox becomes the owner of its prefix, and ends what a predecessor left."""

from __future__ import annotations

from collections.abc import Sequence

from semel.cluster import Cluster
from semel.database.failures import database_errors
from semel.database.ledger import Ledger
from semel.errors import ConfigError, Fenced
from semel.steps import OutboxStep, reached
from semel.transaction.two_phase.prepared import Prepared
from semel.transaction.two_phase.recovery import Recovered, is_newer
from semel.wire.api.describe_transactions import TransactionDescription
from semel.wire.api.transactions import Identity

__all__ = ["Takeover", "older_database_error"]


class Takeover:
    """Recoveries of one outbox."""

    def __init__(self, cluster: Cluster, ledger: Ledger, prefix: str) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._prefix = prefix
        #: True once this outbox has been the owner: then only its recover() takes over from another owner.
        self.owned = False

    def run(self, *, older_database: bool) -> tuple[int, Recovered]:
        """Become the owner, and end the units of the predecessor. Return the owner's number, and what was ended.

        Raise :class:`ConfigError` for a database that cannot say what was decided, :class:`Fenced` if another outbox
        has taken over from this one.
        """
        number = -1

        def decide(open_units: Sequence[TransactionDescription]) -> list[Prepared]:
            # first stop all other owners' decisions, then read the decisions
            nonlocal number
            with database_errors(self._prefix):
                if not self._ledger.has_owner():
                    self._check_first_time(len(open_units), older_database=older_database)
                self._ledger.ensure_tables()
                number = self._raise_number()
                texts = self._ledger.texts()
                self._check_newest(texts, older_database=older_database)
            reached(OutboxStep.TEXTS_READ, self._prefix)
            return texts

        recovered = self._cluster.recover(self._prefix, decide)
        with database_errors(self._prefix):
            self._ledger.forget(recovered.committed)
        reached(OutboxStep.RECOVERED, self._prefix)
        return number, recovered

    def _check_first_time(self, unit_count: int, *, older_database: bool) -> None:
        """Refuse a database that has never had this prefix, if Kafka has units of it."""
        committed = () if older_database else self._cluster.committed_units(self._prefix)
        if self._ledger.has_owner():  # another process has just begun, and these are its units
            return
        if unit_count:
            raise self._other_database(unit_count)
        for unit in committed:
            raise older_database_error(self._prefix, unit)

    def _check_newest(self, texts: Sequence[Prepared], *, older_database: bool) -> None:
        """Refuse a database that lacks a unit which Kafka has committed. No other owner decides a unit now."""
        committed = self._cluster.committed_units(self._prefix)
        newest = self._ledger.newest()
        if newest is None or older_database:
            self._ledger.take_as_newest([*(prepared.identity for prepared in texts), *committed])
            return
        for unit in committed:
            if is_newer(unit, newest.get(unit.transactional_id)):
                raise older_database_error(self._prefix, unit)

    def _other_database(self, count: int) -> ConfigError:
        """Return the error for units of which this database knows nothing: it cannot say which were decided."""
        return ConfigError(
            f"{count} units of the prefix {self._prefix!r} are prepared in Kafka, and this database has never had an"
            " outbox of that prefix. Nothing was changed. (1) Give the database that decided them. (2) Is it lost? End"
            " them yourself: `semel txn commit` or `semel txn abort`. (3) For a new outbox take another prefix.",
            tag="OUTBOX_OTHER_DATABASE",
        )

    def _raise_number(self) -> int:
        """Raise the number. After the first time, raise it only while it is this outbox's: a living successor is not
        stopped.
        """
        if not self.owned:
            number = self._ledger.raise_number()
            self.owned = True
            return number
        raised = self._ledger.raise_own_number()
        if raised is None:
            raise Fenced(
                f"another outbox has taken over the prefix {self._prefix!r}. Nothing was written, and what this"
                " one had decided is ended by that one. Run one process with this prefix, not two."
            )
        return raised


def older_database_error(prefix: str, unit: Identity) -> ConfigError:
    """Return the error for a unit that Kafka has committed and the database does not have."""
    return ConfigError(
        f"Kafka has committed a unit of the outbox {prefix!r} that this database does not have"
        f" ({unit.transactional_id!r}, epoch {unit.epoch}). It is an older copy, or another database. Nothing was"
        " written. (1) Give the newest one. (2) Add the missing rows from Kafka, then call"
        " recover(older_database=True). (3) Take another prefix.",
        tag="OUTBOX_OLDER_DATABASE",
    )
