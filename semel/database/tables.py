"""The tables of the outbox (docs/formats.md). ``metadata`` is for users whose migrations create all tables."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, Text

__all__ = ["FIRST_FORMAT", "FORMAT", "metadata", "newest_units", "owners", "prepared_texts"]

#: The version of the tables, in each owner row: another release of semel may write another one.
FORMAT = 2
#: Tables of this version do not say which units are the newest.
FIRST_FORMAT = 1

metadata = MetaData()

#: A row for each prefix. ``number`` rises with each owner, and a unit of an older owner is not committed. ``holder`` is
#: the outbox that raised it last. ``version`` is that of the newest unit with a version. ``progress`` is the user's
#: text about the source.
owners = Table(
    "semel_outbox_owner",
    metadata,
    Column("prefix", String, primary_key=True),
    Column("format", Integer, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("holder", String, nullable=False),
    Column("version", BigInteger, nullable=True),
    Column("progress", Text, nullable=True),
)

#: A row for each unit that is decided, until its Kafka rows are known to be committed.
prepared_texts = Table(
    "semel_outbox_prepared",
    metadata,
    Column("transactional_id", String, primary_key=True),
    Column("producer_id", BigInteger, primary_key=True, autoincrement=False),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("prefix", String, nullable=False, index=True),
    Column("text", Text, nullable=False),
)

#: A row for each transactional id: the newest unit of it that is decided. Kafka keeps none that is newer, unless the
#: database is an older copy.
newest_units = Table(
    "semel_outbox_newest",
    metadata,
    Column("transactional_id", String, primary_key=True),
    Column("prefix", String, nullable=False, index=True),
    Column("producer_id", BigInteger, nullable=False),
    Column("epoch", Integer, nullable=False),
)
