"""The settings of an application, by Kafka Streams' property names."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semel.config import ClientConfig
from semel.errors import ConfigError, Unsupported

__all__ = ["Settings"]

_TRANSACTION_MS = 10_000
_NUMBERS = {
    "commit.interval.ms": 100,
    "max.poll.interval.ms": 300_000,
    "replication.factor": -1,
    "session.timeout.ms": 45_000,
}
#: Properties of Kafka Streams whose values here are these and no others.
_FIXED = {"num.standby.replicas": "0", "num.stream.threads": "1", "processing.guarantee": "exactly_once_v2"}
_OTHERS = {"application.id", "auto.offset.reset", "group.instance.id", "max.poll.records", "state.dir"}
_OWN = {*_NUMBERS, *_FIXED, *_OTHERS}


@dataclass(frozen=True)
class Settings:
    """The settings of an application, checked. ``client`` has those of every Kafka client."""

    client: ClientConfig
    commit_interval_ms: int
    max_poll_interval_ms: int
    #: None: as many as suit the work.
    max_poll_records: int | None
    replication_factor: int
    session_timeout_ms: int
    auto_offset_reset: str
    group_instance_id: str | None
    state_dir: Path

    @classmethod
    def parse(cls, properties: Mapping[str, object]) -> Settings:
        """Raise :class:`ConfigError` for what cannot be, :class:`Unsupported` for what is not there yet."""
        given = {name: value for name, value in properties.items() if name in _OWN}
        for name, only in _FIXED.items():
            if str(given.get(name, only)) != only:
                raise Unsupported(
                    f"{name}={given[name]} is not there yet. Nothing was read. Leave it out, or set it to {only}.",
                    tag="NOT_YET",
                )
        if str(properties.get("isolation.level", "read_committed")) != "read_committed":
            raise ConfigError(
                "isolation.level=read_uncommitted would count rows of transactions that are aborted, and again when"
                " they come for good. Nothing was read. Leave it out."
            )
        reset = str(given.get("auto.offset.reset", "earliest"))
        if reset not in ("earliest", "latest"):
            raise ConfigError(f"auto.offset.reset={reset} is neither earliest nor latest. Nothing was read. Set one.")
        client = ClientConfig.parse({name: value for name, value in properties.items() if name not in _OWN})
        numbers = {name.replace(".", "_"): _number(name, given.get(name, usual)) for name, usual in _NUMBERS.items()}
        timeout = client.transaction_timeout_ms or _TRANSACTION_MS
        if numbers["commit_interval_ms"] > timeout:
            raise ConfigError(
                f"commit.interval.ms={numbers['commit_interval_ms']} is longer than transaction.timeout.ms={timeout}:"
                " each transaction would be aborted. Nothing was read. Lower commit.interval.ms, or raise"
                " transaction.timeout.ms.",
                tag="COMMIT_INTERVAL",
            )
        most = given.get("max.poll.records")
        instance = given.get("group.instance.id")
        folder = given.get("state.dir")
        return cls(
            client,
            auto_offset_reset=reset,
            group_instance_id=None if instance is None else str(instance),
            state_dir=Path(str(folder)) if folder else Path(tempfile.gettempdir()) / "semel-streams",
            max_poll_records=None if most is None else _number("max.poll.records", most),
            **numbers,
        )


def _number(name: str, given: Any) -> int:
    try:
        found = int(given)
    except (TypeError, ValueError):
        found = 0
    if found < 1 and not (name == "replication.factor" and found == -1):
        raise ConfigError(f"{name}={given!r} is no number above 0. Nothing was read. Correct it.")
    return found
