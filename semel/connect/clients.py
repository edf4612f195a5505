"""The clients of a connector: the worker's properties, and what the connector overrides of them (KIP-458).

A task has one client, the producer's: it writes records and offsets, and reads offsets. The admin client makes topics
and fences. So what ``consumer.override.…`` says of where to read must be what the producer says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from semel.config import ClientConfig
from semel.errors import SemelError

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
    given: Mapping[str, str],
    client: Mapping[str, str],
    producer: Mapping[str, str],
    admin: Mapping[str, str],
    policy: str,
    report: Callable[[str, str], None],
) -> ConnectorClients:
    """Apply a connector's overrides to the worker's ``client``, ``producer`` and ``admin``.

    ``report`` takes what is wrong, and at which setting.
    """
    allowed = POLICIES[policy]
    for name in given:
        prefix = next((prefix for prefix in OVERRIDES if name.startswith(prefix)), None)
        if prefix is not None and allowed is not None and name.removeprefix(prefix) not in allowed:
            text = f"The '{policy.title()}' policy does not allow '{name.removeprefix(prefix)}' to be overridden in the"
            report(name, f"{text} connector configuration.")
    made = ConnectorClients(
        {**producer, **_overrides(given, _PRODUCER)}, {**admin, **_overrides(given, _ADMIN)}, elsewhere=False
    )
    for prefix, properties in ((_PRODUCER, made.producer), (_ADMIN, made.admin)):
        _check(given, prefix, properties, report)
    consumer = _overrides(given, _CONSUMER)
    servers = consumer.pop(_SERVERS, made.producer[_SERVERS])
    if servers != made.producer[_SERVERS]:
        text = f"{_CONSUMER}{_SERVERS} is not what the producer has: offsets are read where they are written."
        report(f"{_CONSUMER}{_SERVERS}", f"{text} Give {_PRODUCER}{_SERVERS} the same value.")
    if consumer:
        log.warning("these change nothing here, since the producer's client reads: %s", ", ".join(sorted(consumer)))
    elsewhere = any(one[_SERVERS] != client[_SERVERS] for one in (made.producer, made.admin))
    return ConnectorClients(made.producer, made.admin, elsewhere)


def _overrides(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    found = {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}
    for name in _SET:
        if name in found:
            log.warning("%s%s is ignored: semel sets it", prefix, name)
            del found[name]
    return found


def _check(
    given: Mapping[str, str], prefix: str, properties: Mapping[str, str], report: Callable[[str, str], None]
) -> None:
    names = [name for name in given if name.startswith(prefix)]
    if not names:
        return
    try:
        ClientConfig.parse(properties)
    except SemelError as error:
        at = next((name for name in names if name.removeprefix(prefix) in error.message), names[0])
        report(at, f"{at}: {error.message}")
