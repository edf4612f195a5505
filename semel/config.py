"""Settings of a client: Kafka's own property names, checked as a whole, frozen, secrets masked.

Names, meanings and defaults are Kafka's, with two exceptions that DESIGN section 3 makes: ``isolation.level`` is
``read_committed``, and ``transaction.timeout.ms`` is 15 minutes, or the broker's maximum where that is less. An unknown
name is refused with the nearest known one; a known one that means nothing to this client (a JVM buffer size) is
accepted and named once in a warning.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from semel.errors import ConfigError
from semel.security import OF_THE_JVM, PLAINTEXT, PROTOCOLS, SECURITY, Security, only_in_java
from semel.settings import INT_MAX, NOTHING, missing, split_list, unknown
from semel.settings.fields import read_fields, setting, table_of
from semel.settings.unused import warn_of_unused

__all__ = ["MEANINGLESS", "PROPERTIES", "ClientConfig", "is_client_property", "known_properties", "parse_servers"]

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
#: Other values of these contradict what semel promises, so only the harmless one is taken.
FORCED = {"acks": ("all", "-1"), "enable.idempotence": ("true",), "enable.auto.commit": ("false",)}


_SERVERS = "bootstrap.servers"


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The settings that a client of one cluster works by: a table of Kafka's properties, with their defaults.

    Times in milliseconds, sizes in bytes. Built by :meth:`parse`.
    """

    bootstrap_servers: tuple[tuple[str, int], ...]
    client_id: str = setting(str, "semel")
    security: Security = PLAINTEXT
    request_timeout_ms: int = setting(int, 30_000, 1, at_most=INT_MAX)
    delivery_timeout_ms: int = setting(int, 120_000, 1, at_most=INT_MAX)
    default_api_timeout_ms: int = setting(int, 60_000, 1, at_most=INT_MAX)
    # Kafka's numbers have 32 bits, and these 64
    socket_connection_setup_timeout_ms: int = setting(int, 10_000, 1)
    retry_backoff_ms: int = setting(int, 100, 0)
    retry_backoff_max_ms: int = setting(int, 1_000, 0)
    metadata_max_age_ms: int = setting(int, 300_000, 0)
    isolation_level: str = setting(str, "read_committed", one_of=("read_committed", "read_uncommitted"))
    compression_type: str = setting(str, "none", one_of=("none", "gzip", "snappy", "lz4", "zstd"))
    max_request_size: int = setting(int, 1_048_576, 1, at_most=INT_MAX)
    transaction_timeout_ms: int | None = setting(int, None, 1, at_most=INT_MAX)
    fetch_min_bytes: int = setting(int, 1, 0, at_most=INT_MAX)
    fetch_max_bytes: int = setting(int, 52_428_800, 1, at_most=INT_MAX)
    fetch_max_wait_ms: int = setting(int, 500, 0, at_most=INT_MAX)
    max_partition_fetch_bytes: int = setting(int, 1_048_576, 1, at_most=INT_MAX)

    @classmethod
    def parse(cls, properties: Mapping[str, object], prefix: str = "", others: Iterable[str] = ()) -> ClientConfig:
        """Read Kafka properties. ``prefix`` is what the user writes before each name, and ``others`` are names that may
        be meant by an unknown one.

        Raises :class:`ConfigError` for what is unknown, malformed or contradictory, :class:`Unsupported` for what only
        a JVM can do.
        """
        if not str(properties.get(_SERVERS) or "").strip(", "):
            raise missing(_SERVERS, remedy="Give it as host:port[,host:port].")
        for name, value in properties.items():
            if name in MEANINGLESS:
                _check_forced(name, str(value), prefix)
            elif not is_client_property(name):
                raise _unknown(name, prefix, others)
            elif (java := only_in_java(name)) is not None:
                raise java
        warn_of_unused("the Java clients", [name for name in properties if name in MEANINGLESS])
        values = {name: str(properties[name]).strip() for name in PROPERTIES if properties.get(name) is not None}
        config = cls(
            bootstrap_servers=parse_servers(str(properties[_SERVERS])),
            security=Security.parse(properties),
            **read_fields(cls, values, prefix=prefix),
        )
        if config.delivery_timeout_ms < config.request_timeout_ms:
            raise ConfigError(
                f"delivery.timeout.ms={config.delivery_timeout_ms} is below"
                f" request.timeout.ms={config.request_timeout_ms}: not one request could be waited for. Nothing was"
                " sent. Raise the first or lower the second.",
                tag="WRONG_VALUE",
            )
        return config

    def for_metrics(self, within_ms: int) -> ClientConfig:
        """Return these settings with short timeouts, and with a client id that tells metrics from the work."""
        return replace(
            self,
            client_id=f"{self.client_id}-metrics",
            request_timeout_ms=min(within_ms, self.request_timeout_ms),
            delivery_timeout_ms=min(within_ms, self.delivery_timeout_ms),
            default_api_timeout_ms=min(within_ms, self.default_api_timeout_ms),
            socket_connection_setup_timeout_ms=min(within_ms, self.socket_connection_setup_timeout_ms),
        )


#: Kafka's property, and how its text is read.
PROPERTIES = table_of(ClientConfig)


def parse_servers(text: str) -> tuple[tuple[str, int], ...]:
    """``host:port,host:port`` (or ``[::1]:9092``, ``::1:9092``) as pairs.

    A protocol before it is passed over, as Kafka's own clients do: some clouds print addresses so.
    """
    servers: list[tuple[str, int]] = []
    for entry in split_list(text):
        server = _server(entry)
        if server is None:
            raise ConfigError(
                f"bootstrap.servers holds {entry!r:.200}, which is not host:port. Nothing was sent. Give it as"
                " host:port[,host:port], with commas between; a protocol before it (SASL_SSL://) is passed over, and"
                " security.protocol counts.",
                tag="WRONG_VALUE",
            )
        servers.append(server)
    return tuple(servers)


def _server(entry: str) -> tuple[str, int] | None:
    match = _SERVER.fullmatch(entry)
    if match is None or (match["protocol"] or "PLAINTEXT").upper() not in PROTOCOLS:
        return None
    host, port = match["name"], int(match["port"])
    if host is None:
        host = match["bracketed"] or match["bare"]
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            return None
    return (host, port) if 0 < port < 65536 else None


def is_client_property(name: str) -> bool:
    """Return whether a name is a property of Kafka's clients. Those of Java's clients alone count too:
    :class:`ClientConfig` refuses them.
    """
    return name in (_SERVERS, *PROPERTIES) or name in SECURITY or name in MEANINGLESS or only_in_java(name) is not None


def known_properties() -> list[str]:
    """Return the names of Kafka that :class:`ClientConfig` takes, also those that change nothing."""
    return [_SERVERS, *PROPERTIES, *SECURITY, *MEANINGLESS]


def _unknown(name: str, prefix: str, others: Iterable[str]) -> ConfigError:
    if name == "transactional.id":
        return ConfigError(
            f"{prefix}{name} is given by semel, one for each owner. {NOTHING} Remove it, and name"
            " your query or program: transactionalIdPrefix of a sink, cluster.producer(name) in plain Python.",
            tag="UNKNOWN_OPTION",
        )
    return unknown(f"{prefix}{name}", [f"{prefix}{candidate}" for candidate in (*known_properties(), *others)])


def _check_forced(name: str, value: str, prefix: str) -> None:
    allowed = FORCED.get(name)
    if allowed and value.lower() not in allowed:
        raise ConfigError(
            f"{prefix}{name}={value:.200} contradicts exactly-once. {NOTHING} Remove it, or set it to {allowed[0]}.",
            tag="WRONG_VALUE",
        )
