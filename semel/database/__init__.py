"""Kafka with a database: rows of a SQL database and Kafka records, both or neither (docs/two-phase-commit.md).

A unit prepares its Kafka rows, and writes the text that ends them into the database, in the same transaction as the
user's rows. The database's COMMIT is the decision. SQLAlchemy talks to the database.

==============  ======================================================================================================
``outbox``      ``Outbox``: units and their decisions; start here
``takeover``    how an outbox becomes the owner, and ends what a predecessor left
``turns``       how many units run at a time
``unit``        ``OutboxUnit``: the session and the Kafka rows of one unit
``ledger``      reads and writes of the owner row and the prepared texts
``tables``      their tables
``dialects``    differences of PostgreSQL and SQLite: locks, durability, how a transaction begins
``failures``    errors of the database, in semel's words
==============  ======================================================================================================
"""

from __future__ import annotations

from semel.database.outbox import Outbox
from semel.database.tables import metadata
from semel.database.unit import OutboxUnit

__all__ = ["Outbox", "OutboxUnit", "metadata"]
