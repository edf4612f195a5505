"""Kafka with a database: rows of a SQL database and Kafka records, both or neither (docs/two-phase-commit.md).

A unit prepares its Kafka rows, and writes what ends them into the database, in the same transaction as the user's rows.
The database's COMMIT is the decision. SQLAlchemy talks to the database.

==============  ======================================================================================================
``outbox``      ``Outbox``: units, one after the other, and recovery; start here
``unit``        ``OutboxUnit``: the session and the Kafka rows of one unit
``ledger``      the owner row and the prepared texts, as they are read and written
``tables``      both tables
``dialects``    what PostgreSQL and SQLite do differently: locks, durability, how a transaction begins
==============  ======================================================================================================
"""

from __future__ import annotations

from semel.database.outbox import Outbox
from semel.database.tables import metadata
from semel.database.unit import OutboxUnit

__all__ = ["Outbox", "OutboxUnit", "metadata"]
