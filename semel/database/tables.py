"""The two tables of the outbox (docs/formats.md). ``metadata`` is for those whose migrations create all tables."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, Text

__all__ = ["FORMAT", "metadata", "owners", "prepared_texts"]

#: The version of both tables, in each owner row: another semel may write another one.
FORMAT = 1

metadata = MetaData()

#: One row a prefix. ``number`` rises with each owner, and a unit of an older one is not committed. ``holder`` names the
#: outbox that has raised it last, ``version`` is that of the newest unit that had one, ``progress`` what it has said
#: of how far its source is read.
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

#: One row for each unit that is decided and of which it is not known yet that its Kafka rows are committed.
prepared_texts = Table(
    "semel_outbox_prepared",
    metadata,
    Column("transactional_id", String, primary_key=True),
    Column("producer_id", BigInteger, primary_key=True, autoincrement=False),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("prefix", String, nullable=False, index=True),
    Column("text", Text, nullable=False),
)
