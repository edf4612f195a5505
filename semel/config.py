"""Settings of a client: Kafka's own property names, checked as a whole, frozen, secrets masked.

Names, meanings and defaults are Kafka's, with two exceptions that DESIGN section 3 makes: ``isolation.level`` is
``read_committed``, and ``transaction.timeout.ms`` is 15 minutes, or the broker's maximum where that is less. An unknown
name is refused with the nearest known one; a known one that means nothing to this client (a JVM buffer size) is
accepted and named once in a warning.
"""

from __future__ import annotations

import difflib
import ipaddress
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from semel.errors import ConfigError
from semel.security import OF_THE_JVM, PLAINTEXT, PROTOCOLS, SECURITY, Security, only_in_java

__all__ = ["MEANINGLESS", "ClientConfig", "is_property", "known_properties", "nearest", "parse_servers"]

log = logging.getLogger("semel")

#: Properties of the Java clients that change nothing here: buffers, threads, metrics and group membership of a JVM
#: client.
MEANINGLESS = OF_THE_JVM | frozenset(
    """acks auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset batch.size buffer.memory check.crcs
    client.dns.lookup client.rack connections.max.idle.ms enable.auto.commit enable.idempotence enable.metrics.push
    exclude.internal.topics heartbeat.interval.ms key.deserializer key.serializer linger.ms max.block.ms
    max.in.flight.requests.per.connection max.poll.interval.ms max.poll.records metadata.max.idle.ms metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms receive.buffer.bytes reconnect.backoff.max.ms
    reconnect.backoff.ms retries send.buffer.bytes session.timeout.ms socket.connection.setup.timeout.max.ms
    value.deserializer value.serializer""".split()
)
#: As Kafka's own clients read an address.
_SERVER = re.compile(
    r"(?:(?P<protocol>\w+)://)?(?:\[(?P<bracketed>[^\]]*)\]|(?P<bare>[^\[\]]*:[^\[\]]*)|(?P<name>[0-9A-Za-z._%-]+))"
    r":(?P<port>[0-9]{1,5})",
    re.ASCII,
)
#: Of a name that is looked for among the known ones.
_LONGEST_NAME = 100
#: Other values of these contradict what semel promises, so only the harmless one is taken.
FORCED = {"acks": ("all", "-1"), "enable.idempotence": ("true",), "enable.auto.commit": ("false",)}


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The settings that a client of one cluster works by.

    Times in milliseconds, sizes in bytes. Built by :meth:`parse`.
    """

    bootstrap_servers: tuple[tuple[str, int], ...]
    client_id: str = "semel"
    security: Security = PLAINTEXT
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    default_api_timeout_ms: int = 60_000
    connection_setup_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    isolation_level: str = "read_committed"
    compression_type: str = "none"
    max_request_size: int = 1_048_576
    transaction_timeout_ms: int | None = None
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1_048_576

    @classmethod
    def parse(cls, properties: Mapping[str, object], prefix: str = "") -> ClientConfig:
        """Read Kafka properties. ``prefix`` is what the user writes before each name, for messages.

        Raises :class:`ConfigError` for what is unknown, malformed or contradictory, :class:`Unsupported` for what only
        a JVM can do.
        """
        if not str(properties.get("bootstrap.servers") or "").strip(", "):
            raise ConfigError(
                "bootstrap.servers is missing, so there is no cluster to talk to. Nothing was read or written. Give"
                " it as host:port[,host:port]."
            )
        values: dict[str, Any] = {}
        ignored: list[str] = []
        for name, value in properties.items():
            if name in _PROPERTIES:
                attribute, convert = _PROPERTIES[name]
                values[attribute] = convert(name, str(value))
            elif name in MEANINGLESS:
                _check_forced(name, str(value))
                ignored.append(name)
            elif name not in SECURITY:
                raise only_in_java(name) or _unknown(name, prefix)
        if ignored:
            _warn_once(tuple(sorted(ignored)))
        config = cls(**values, security=Security.parse(properties))
        config._check()
        return config

    def for_metrics(self, within_ms: int) -> ClientConfig:
        """Return these settings with short timeouts, and with a client id that tells metrics from the work."""
        return replace(
            self,
            client_id=f"{self.client_id}-metrics",
            request_timeout_ms=min(within_ms, self.request_timeout_ms),
            delivery_timeout_ms=min(within_ms, self.delivery_timeout_ms),
            default_api_timeout_ms=min(within_ms, self.default_api_timeout_ms),
            connection_setup_timeout_ms=min(within_ms, self.connection_setup_timeout_ms),
        )

    def _check(self) -> None:
        if self.delivery_timeout_ms < self.request_timeout_ms:
            raise ConfigError(
                f"delivery.timeout.ms={self.delivery_timeout_ms} is below"
                f" request.timeout.ms={self.request_timeout_ms}: not one request could be waited for. Nothing was"
                " sent. Raise the first or lower the second."
            )


def parse_servers(text: str) -> tuple[tuple[str, int], ...]:
    """``host:port,host:port`` (or ``[::1]:9092``, ``::1:9092``) as pairs.

    A protocol in front is passed over, as Kafka's own clients do: some clouds print addresses so.
    """
    servers: list[tuple[str, int]] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        server = _server(entry)
        if server is None:
            raise ConfigError(
                f"bootstrap.servers holds {entry!r:.200}, which is not host:port. Nothing was sent. Give it as"
                " host:port[,host:port], with commas between; a protocol in front (SASL_SSL://) is passed over, and"
                " security.protocol counts."
            )
        servers.append(server)
    return tuple(servers)


def _server(entry: str) -> tuple[str, int] | None:
    found = _SERVER.fullmatch(entry)
    if found is None or (found["protocol"] or "PLAINTEXT").upper() not in PROTOCOLS:
        return None
    host, port = found["name"], int(found["port"])
    if host is None:
        host = found["bracketed"] or found["bare"]
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            return None
    return (host, port) if 0 < port < 65536 else None


def is_property(name: str) -> bool:
    """Return whether :class:`ClientConfig` knows a name, apart from the names of security."""
    return name in _PROPERTIES


def known_properties() -> list[str]:
    """Return the names of Kafka that :class:`ClientConfig` takes, also those that change nothing."""
    return [*_PROPERTIES, *SECURITY, *MEANINGLESS]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the words that point to the nearest known name, or an empty text."""
    if len(name) > _LONGEST_NAME:  # comparing takes the square of its length
        return ""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _unknown(name: str, prefix: str) -> ConfigError:
    if name == "transactional.id":
        return ConfigError(
            f"{prefix}{name} is given by semel, one for each owner. Nothing was read or written. Remove it, and name"
            " your query or program: transactionalIdPrefix of a sink, cluster.producer(name) in plain Python.",
            tag="UNKNOWN_OPTION",
        )
    hint = nearest(f"{prefix}{name}", [f"{prefix}{known}" for known in known_properties()]) or "."
    return ConfigError(
        f"{prefix}{name:.200} is not a known property{hint} Nothing was read or written. Correct or remove it.",
        tag="UNKNOWN_OPTION",
    )


def _check_forced(name: str, value: str) -> None:
    allowed = FORCED.get(name)
    if allowed and value.lower() not in allowed:
        raise ConfigError(
            f"{name}={value} contradicts exactly-once. Nothing was read or written. Remove it, or set"
            f" {name}={allowed[0]}."
        )


_warned: set[tuple[str, ...]] = set()


def _warn_once(names: tuple[str, ...]) -> None:
    if names not in _warned:
        _warned.add(names)
        log.warning("these properties belong to the Java clients and change nothing here: %s", ", ".join(names))


def _text(name: str, value: str) -> str:
    return value.strip()


#: Kafka's own numbers have 32 bits, and some of its times 64.
_LARGEST, _LONGEST = 2**31 - 1, 2**63 - 1


def _number(minimum: int, most: int = _LARGEST) -> Callable[[str, str], int]:
    def convert(name: str, value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            raise ConfigError(
                f"{name}={value} is not a whole number. Nothing was read or written. Give {minimum} or more."
            ) from None
        if number < minimum:
            raise ConfigError(
                f"{name}={number} is below {minimum}, the least that makes sense. Nothing was read or written. Raise"
                " it."
            )
        if number > most:
            raise ConfigError(
                f"{name}={number} is above {most}, the most that Kafka takes. Nothing was read or written. Lower it."
            )
        return number

    return convert


def _one_of(*choices: str) -> Callable[[str, str], str]:
    def convert(name: str, value: str) -> str:
        if value.strip().lower() not in choices:
            raise ConfigError(
                f"{name}={value} is none of {', '.join(choices)}. Nothing was read or written. Give one of them."
            )
        return value.strip().lower()

    return convert


#: Kafka's property -> the attribute, and how its text is read.
_PROPERTIES: dict[str, tuple[str, Callable[[str, str], object]]] = {
    "bootstrap.servers": ("bootstrap_servers", lambda name, value: parse_servers(value)),
    "client.id": ("client_id", _text),
    "request.timeout.ms": ("request_timeout_ms", _number(1)),
    "delivery.timeout.ms": ("delivery_timeout_ms", _number(1)),
    "default.api.timeout.ms": ("default_api_timeout_ms", _number(1)),
    "socket.connection.setup.timeout.ms": ("connection_setup_timeout_ms", _number(1, _LONGEST)),
    "retry.backoff.ms": ("retry_backoff_ms", _number(0, _LONGEST)),
    "retry.backoff.max.ms": ("retry_backoff_max_ms", _number(0, _LONGEST)),
    "metadata.max.age.ms": ("metadata_max_age_ms", _number(0, _LONGEST)),
    "isolation.level": ("isolation_level", _one_of("read_committed", "read_uncommitted")),
    "compression.type": ("compression_type", _one_of("none", "gzip", "snappy", "lz4", "zstd")),
    "max.request.size": ("max_request_size", _number(1)),
    "transaction.timeout.ms": ("transaction_timeout_ms", _number(1)),
    "fetch.min.bytes": ("fetch_min_bytes", _number(0)),
    "fetch.max.bytes": ("fetch_max_bytes", _number(1)),
    "fetch.max.wait.ms": ("fetch_max_wait_ms", _number(0)),
    "max.partition.fetch.bytes": ("max_partition_fetch_bytes", _number(1)),
}
