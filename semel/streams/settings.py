"""The settings of an application, by Kafka Streams' property names."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.settings import not_yet, read_settings
from semel.settings.fields import read_fields, setting, table_of
from semel.streams.handlers import Handlers

__all__ = ["Settings", "is_caching"]

_TRANSACTION_MS = 10_000
#: Properties of Kafka Streams whose values here are these and no others.
_FIXED = {"processing.guarantee": "exactly_once_v2"}
_NOTHING = "Nothing was read."


@dataclass(frozen=True)
class Settings:
    """The settings of an application, checked. ``client`` has those of every Kafka client."""

    client: ClientConfig
    commit_interval_ms: int = setting(int, 100, 1)
    max_poll_interval_ms: int = setting(int, 300_000, 1)
    #: None: as many as suit the work.
    max_poll_records: int | None = setting(int, None, 1)
    replication_factor: int = setting(int, -1, 1, also=-1)
    session_timeout_ms: int = setting(int, 45_000, 1)
    auto_offset_reset: str = setting(str, "earliest", one_of=("earliest", "latest"))
    group_instance_id: str | None = setting(str, None)
    state_dir: Path = setting(str, "")
    #: 0 hands on each update of an aggregation or a table; more hands on the last one of each key in a batch.
    statestore_cache_max_bytes: int = setting(int, 10_485_760, 0)
    #: How long a task waits for an input that is empty before it works on the others; -1 never waits.
    max_task_idle_ms: int = setting(int, 0, 0, also=-1)
    #: Workers that `semel streams run` starts, a process each.
    num_stream_threads: int = setting(int, 1, 1)
    #: How long the folder of a task stays that has moved away.
    state_cleanup_delay_ms: int = setting(int, 600_000, 0)
    #: Copies of the state of each task, on other workers.
    num_standby_replicas: int = setting(int, 0, 0)
    #: A copy that lacks at most so many offsets is as good as the state itself.
    acceptable_recovery_lag: int = setting(int, 10_000, 0)
    #: Copies at most that members get in order to take a task over.
    max_warmup_replicas: int = setting(int, 2, 1)
    #: How long they have for that before tasks are shared out again.
    probing_rebalance_interval_ms: int = setting(int, 600_000, 60_000)

    @classmethod
    def parse(cls, properties: Mapping[str, object]) -> Settings:
        """Raise :class:`ConfigError`, or :class:`~semel.errors.Unsupported` for what is not there yet."""
        for name, only in _FIXED.items():
            if str(properties.get(name, only)) != only:
                raise not_yet(f"{name}={properties[name]}", f"Remove it, or set it to {only}.", _NOTHING)
        if str(properties.get("isolation.level", "read_committed")) != "read_committed":
            raise ConfigError(
                "isolation.level=read_uncommitted would count rows of transactions that are aborted, and again when"
                f" they come for good. {_NOTHING} Leave it out.",
                tag="WRONG_VALUE",
            )
        values = read_fields(cls, properties, _NOTHING)
        handlers = table_of(Handlers)
        own = {
            *table_of(cls),
            *handlers,
            *(f"default.{name}" for name in handlers),
            *_FIXED,
            "application.id",
            "default.timestamp.extractor",
        }
        client = ClientConfig.parse({name: value for name, value in properties.items() if name not in own}, "", own)
        timeout = client.transaction_timeout_ms or _TRANSACTION_MS
        if values["commit_interval_ms"] > timeout:
            raise ConfigError(
                f"commit.interval.ms={values['commit_interval_ms']} is longer than transaction.timeout.ms={timeout}:"
                " each transaction would be aborted. Nothing was read. Lower commit.interval.ms, or raise"
                " transaction.timeout.ms.",
                tag="WRONG_VALUE",
            )
        folder = values["state_dir"] or Path(tempfile.gettempdir()) / "semel-streams"
        return cls(client, **{**values, "state_dir": Path(folder)})


def is_caching(properties: Mapping[str, object]) -> bool:
    """Return whether these properties ask for the last update of each key, and not for each one."""
    table = {name: one for name, one in table_of(Settings).items() if name == "statestore.cache.max.bytes"}
    return any(read_settings(table, properties, _NOTHING).values())
