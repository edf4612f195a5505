"""The clients of a connector: the worker's properties, and what the connector overrides of them (KIP-458).

A source's task has one client, the producer's: it writes records and offsets, and reads offsets. The admin client makes
topics and fences. So what ``consumer.override.…`` says of where to read must be what the producer says.

A sink's task reads as a consumer, and its producer writes dead letters.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from semel.config import ClientConfig
from semel.connect.settings.connector_properties import ConnectorProperties
from semel.connect.settings.sink_config import CONSUMER
from semel.errors import SemelError
from semel.settings.unused import warn_of_unused

__all__ = ["OVERRIDES", "POLICIES", "ConnectorClients", "consumer_client", "read_clients"]

log = logging.getLogger("semel.connect")

_PRODUCER, _ADMIN, _CONSUMER = "producer.override.", "admin.override.", "consumer.override."
OVERRIDES = (_PRODUCER, _ADMIN, _CONSUMER)
#: ``connector.client.config.override.policy``, and what each allows; None is everything.
POLICIES: Mapping[str, frozenset[str] | None] = {
    "all": None,
    "none": frozenset(),
    "principal": frozenset({"security.protocol", "sasl.jaas.config", "sasl.mechanism"}),
}
#: What semel sets itself: another value is ignored, with a warning (KIP-618).
_SET = ("transactional.id", "isolation.level")
_SERVERS = "bootstrap.servers"


@dataclass(frozen=True, slots=True)
class ConnectorClients:
    """Properties of a connector's clients. ``elsewhere``: an address differs from the worker's."""

    producer: Mapping[str, str]
    admin: Mapping[str, str]
    #: Of a sink, with the settings of its group.
    consumer: Mapping[str, str]
    elsewhere: bool


def read_clients(
    properties: ConnectorProperties,
    client: Mapping[str, str],
    producer: Mapping[str, str],
    admin: Mapping[str, str],
    consumer: Mapping[str, str],
    policy: str,
    *,
    sink: bool = False,
) -> ConnectorClients:
    """Apply a connector's overrides to the worker's ``client``, ``producer``, ``admin`` and ``consumer``.

    Problems are noted in ``properties``.
    """
    allowed = POLICIES[policy]
    given = {prefix: properties.below(prefix) for prefix in OVERRIDES}
    for prefix, names in given.items():
        for name in names:
            if allowed is not None and name not in allowed:
                text = f"The '{policy.title()}' policy does not allow '{name}' to be overridden in the"
                properties.add(f"{prefix}{name}", f"{text} connector configuration.")
    producer = {**producer, **_overrides(_PRODUCER, given[_PRODUCER])}
    admin = {**admin, **_overrides(_ADMIN, given[_ADMIN])}
    for prefix, merged in ((_PRODUCER, producer), (_ADMIN, admin)):
        _check(properties, prefix, list(given[prefix]), merged)
    if sink:
        consumer = {**consumer, **given[_CONSUMER]}
        _check(properties, _CONSUMER, list(consumer_client(given[_CONSUMER])), consumer_client(consumer))
    else:
        _check_consumer(properties, _overrides(_CONSUMER, given[_CONSUMER]), producer)
    elsewhere = any(one[_SERVERS] != client[_SERVERS] for one in (producer, admin))
    return ConnectorClients(producer, admin, consumer, elsewhere)


def consumer_client(consumer: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a consumer that are its client's."""
    return {name: value for name, value in consumer.items() if name not in CONSUMER}


def _check_consumer(properties: ConnectorProperties, consumer: dict[str, str], producer: Mapping[str, str]) -> None:
    """Check that a source's consumer reads what its producer writes: the producer's client does."""
    servers = consumer.pop(_SERVERS, producer[_SERVERS])
    if servers != producer[_SERVERS]:
        text = f"{_CONSUMER}{_SERVERS} is not what the producer has: offsets are read where they are written."
        properties.add(f"{_CONSUMER}{_SERVERS}", f"{text} Give {_PRODUCER}{_SERVERS} the same value.")
    warn_of_unused("the consumer", consumer)


def _overrides(prefix: str, given: Mapping[str, str]) -> dict[str, str]:
    for name in _SET:
        if name in given:
            log.warning("%s%s is ignored: semel sets it", prefix, name)
    return {name: value for name, value in given.items() if name not in _SET}


def _check(properties: ConnectorProperties, prefix: str, names: list[str], merged: Mapping[str, str]) -> None:
    if not names:
        return
    try:
        ClientConfig.parse(merged)
    except SemelError as error:
        at = f"{prefix}{next((name for name in names if name in error.message), names[0])}"
        properties.add(at, f"{at}: {error.message}", tag=error.tag)
