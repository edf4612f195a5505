"""The clients of a connector: the worker's properties, and what the connector overrides of them (KIP-458).

A task has one client, the producer's: it writes records and offsets, and reads offsets. The admin client makes topics
and fences. So what ``consumer.override.…`` says of where to read must be what the producer says.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from semel.config import ClientConfig
from semel.connect.settings.connector_properties import ConnectorProperties
from semel.errors import SemelError
from semel.settings.unused import warn_of_unused

__all__ = ["OVERRIDES", "POLICIES", "ConnectorClients", "read_clients"]

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
    elsewhere: bool


def read_clients(
    properties: ConnectorProperties,
    client: Mapping[str, str],
    producer: Mapping[str, str],
    admin: Mapping[str, str],
    policy: str,
) -> ConnectorClients:
    """Apply a connector's overrides to the worker's ``client``, ``producer`` and ``admin``.

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
    consumer = _overrides(_CONSUMER, given[_CONSUMER])
    servers = consumer.pop(_SERVERS, producer[_SERVERS])
    if servers != producer[_SERVERS]:
        text = f"{_CONSUMER}{_SERVERS} is not what the producer has: offsets are read where they are written."
        properties.add(f"{_CONSUMER}{_SERVERS}", f"{text} Give {_PRODUCER}{_SERVERS} the same value.")
    warn_of_unused("the consumer", consumer)  # the producer's client reads
    elsewhere = any(one[_SERVERS] != client[_SERVERS] for one in (producer, admin))
    return ConnectorClients(producer, admin, elsewhere)


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
