"""Ask Debezium's own PostgreSQL connector, on Kafka's own Connect, about the changes, and keep its answers.

Its jars come from Maven, the first time.
"""

from __future__ import annotations

import json
import lzma
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Consumer, Message, TopicPartition

from semel.sandbox import Sandbox
from semel.sandbox.ivy import kept
from semel.sandbox.jars import cache_directory
from semel.testing.postgres import Postgres
from tests.connect.oracle.changes import LAYOUT, ROWS, SCRIPT, VARIANTS, normalised
from tests.connect.support.kafka_connect import KafkaConnect, kafka_connect
from tests.support.waiting import wait_for

VERSION = "3.6.1.Final"
ANSWERS = Path(__file__).parent / "debezium.json.xz"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
LAST = "INSERT INTO pairs VALUES ('end', 100, 'the end', NULL)"
_TABLES = ("kinds", "pairs", "whole", "keyless", "defaults", "evolving")


def debezium_home() -> Path:
    """Return the folder of Debezium's jars, fetched the first time."""
    home = cache_directory() / "debezium" / VERSION
    parts = [("io.debezium", "debezium-connector-postgres", VERSION)]
    kept(home, parts, f"Debezium {VERSION}", progress=True, whole=True)
    return home


def connector(variant: str, postgres: Postgres) -> dict[str, str]:
    """Return the properties of a connector, which semel and Debezium both take."""
    prefix = variant.replace("-", "_")
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(postgres.port),
        "database.user": "postgres",
        "database.password": "unused",
        "database.dbname": "postgres",
        "topic.prefix": f"of-{prefix}",
        "slot.name": f"slot_{prefix}",
        "publication.name": f"pub_{prefix}",
        "plugin.name": "pgoutput",
        "key.converter": _JSON,
        "value.converter": _JSON,
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
        **VARIANTS[variant],
    }


def topics_of(variant: str) -> list[str]:
    """Return the topics that a connector may write."""
    prefix = f"of-{variant.replace('-', '_')}"
    return [f"{prefix}.public.{table}" for table in _TABLES] + [f"{prefix}.transaction"]


def run_script(postgres: Postgres, statements: list[str]) -> None:
    """Run statements, each as a transaction."""
    url = f"host=127.0.0.1 port={postgres.port} user=postgres dbname=postgres"
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def answers(servers: str, variant: str, topics: list[str]) -> dict[str, Any]:
    """Return what was written, by topic, without what differs between two readings."""
    there = [topic for topic in topics if topic in topics_of(variant)]
    return {
        topic.partition(".")[2]: [
            answer(row.key(), row.value(), row.headers() or ()) for row in records(servers, topic)
        ]
        for topic in sorted(there)
    }


def records(servers: str, topic: str, last: int | None = None) -> list[Message]:
    """Return the records of the one partition of a topic; of its ``last`` offsets alone, if that is given."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "auto.offset.reset": "earliest"})
    found: list[Message] = []
    try:
        partition = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(partition, 30)
        partition.offset = 0 if last is None else max(0, end - last)
        consumer.assign([partition])
        while consumer.position([partition])[0].offset < end:
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                found.append(message)
    finally:
        consumer.close()
    return found


def kept_answers() -> dict[str, dict[str, list[Any]]]:
    """Return Debezium's answers, by variant and topic."""
    kept: dict[str, dict[str, list[Any]]] = json.loads(lzma.decompress(ANSWERS.read_bytes()))
    return kept


def answer(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> list[Any]:
    """Return a record as it is kept: without what differs between two readings, and what semel does not write."""
    shown = [
        [name, "str" if name == "__transaction_id" and one else None if one is None else one.decode()]
        for name, one in headers
        if not name.startswith("__debezium.context.")
    ]
    return [normalised(key), normalised(value), *([shown] if shown else [])]


def main() -> None:
    """Write the answers beside this file."""
    from confluent_kafka.admin import AdminClient

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kafka = stack.enter_context(Sandbox.start())
        postgres = stack.enter_context(Postgres(wal_level="logical", max_replication_slots="20", max_wal_senders="20"))
        servers = kafka.bootstrap_servers
        run_script(postgres, [LAYOUT, ROWS])
        worker = {
            "bootstrap.servers": servers,
            "group.id": "debezium",
            "offset.storage.topic": "debezium-offsets",
            "key.converter": _JSON,
            "value.converter": _JSON,
            "plugin.path": str(debezium_home().parent),
        }
        connect = stack.enter_context(kafka_connect(worker, folder / "connect"))
        for variant in VARIANTS:
            name = variant.replace("-", "_")
            connect.ask("POST", "/connectors", {"name": name, "config": connector(variant, postgres)})
        admin = AdminClient({"bootstrap.servers": servers})

        def written() -> list[str]:
            return [name for name in admin.list_topics(timeout=30).topics if name.startswith("of-")]

        wait_for(lambda: streams(postgres) == len(VARIANTS), lambda: _statuses(connect), 180)
        run_script(postgres, [*SCRIPT, LAST])
        for variant in VARIANTS:
            wait_for(partial(ended, servers, variant, written), partial(_statuses, connect), 180)
        made = {variant: answers(servers, variant, written()) for variant in VARIANTS}
    ANSWERS.write_bytes(lzma.compress(json.dumps(made, indent=0).encode()))


def streams(postgres: Postgres) -> int:
    """Return how many readers follow the log."""
    url = f"host=127.0.0.1 port={postgres.port} user=postgres dbname=postgres"
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'").fetchone()
    return row[0] if row else 0


def _statuses(connect: KafkaConnect) -> str:
    return json.dumps(connect.ask("GET", "/connectors?expand=status"))[:4000]


def ended(servers: str, variant: str, written: Callable[[], list[str]]) -> bool:
    """Return whether the last change was written."""
    topic = topics_of(variant)[_TABLES.index("pairs")]
    return topic in written() and any(b'"end"' in (message.key() or b"") for message in records(servers, topic))


if __name__ == "__main__":
    main()
