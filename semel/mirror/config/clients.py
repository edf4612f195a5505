"""The clients of a flow, by all spellings of the file.

One client speaks for all roles of a cluster: what ``consumer.`` and ``admin.`` say of the source, and ``producer.`` and
``admin.`` of the target, is laid over the cluster's own settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from semel.config import ClientConfig, is_client_property
from semel.errors import ConfigError, SemelError
from semel.mirror.config.file_keys import FileKeys
from semel.mirror.config.keys import (
    NOTHING,
    OF_CLUSTER_UNREAD,
    OVERRIDE,
    START,
    is_accepted,
    is_shared,
)
from semel.settings import missing, read_value

__all__ = ["ISOLATION", "RESET", "source_client", "target_client", "unread_keys"]

#: Where a source without a position is read from: the flow takes it from its client.
RESET = "auto.offset.reset"
ISOLATION = "isolation.level"
_UNCOMMITTED = "read_uncommitted"


def source_client(keys: FileKeys, flow: tuple[str, str], *, exactly_once: bool) -> dict[str, str]:
    """Return the properties of the client that reads, with :data:`RESET` if the file has it.

    Raise :class:`ConfigError` if they are wrong.
    """
    values, written = _merged(keys, flow[0], flow, "source", "consumer")
    if exactly_once and values.get(ISOLATION, "").lower() == _UNCOMMITTED:
        raise ConfigError(
            f"{written[ISOLATION]}={_UNCOMMITTED} contradicts exactly once: rows that were aborted on {flow[0]} would"
            f" arrive as committed ones. Nothing was copied. Take it out, or set {flow[1]}.exactly.once.source.support"
            " = disabled.",
            tag="WRONG_VALUE",
        )
    reset = {name: values.pop(name) for name in (RESET,) if name in values}
    reset = {name: read_value(written[name], value, START, NOTHING) for name, value in reset.items()}
    _check(flow[0], values, written)
    return {**values, **reset}


def target_client(keys: FileKeys, flow: tuple[str, str], *, check: bool = True) -> dict[str, str]:
    """Return the properties of the client that writes. Raise :class:`ConfigError` if they are wrong.

    Without ``check``, only a missing address is refused: a client beside the copy may not keep it from starting.
    """
    values, written = _merged(keys, flow[1], flow, "target", "producer")
    values = {name: value for name, value in values.items() if name not in (RESET, ISOLATION)}
    if check:
        _check(flow[1], values, written)
    return values


def _merged(
    keys: FileKeys, alias: str, flow: tuple[str, str], side: str, role: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the properties of a client, and the key of the file that each is from."""
    cluster, own, plain = keys.of_cluster[alias], keys.of_flow.get(flow, {}), keys.plain
    of_flow, of_cluster = f"{flow[0]}->{flow[1]}.", f"{alias}."
    merged = {name: (value, name) for name, value in plain.items() if is_shared(name)}
    merged |= {name: (value, of_cluster + name) for name, value in cluster.items() if is_client_property(name)}
    merged |= {
        name: (value, f"{of_flow}{side}.cluster.{name}")
        for name, value in _below(f"{side}.cluster.", own).items()
        if is_client_property(name)
    }
    for each in ("admin", role):
        places = [
            ("", f"{each}.", plain),
            ("", f"{side}.{each}.", plain),
            (of_cluster, f"{each}.", cluster),
            (of_flow, f"{each}.", own),
            (of_flow, f"{side}.{each}.", own),
        ]
        if side == "target":
            places += [("", f"{each}.{OVERRIDE}", plain), (of_flow, f"{each}.{OVERRIDE}", own)]
        for start, prefix, row in places:
            for name, value in _below(prefix, row).items():
                if not (name.startswith(OVERRIDE) or _is_ignored(name) or is_accepted(f"{each}.{name}")):
                    merged[name] = value, f"{start}{prefix}{name}"
    values, written = ({name: row[at] for name, row in merged.items()} for at in (0, 1))
    if not values.get("bootstrap.servers"):
        raise missing(f"{alias}.bootstrap.servers", NOTHING, "Give it as host:port[,host:port].")
    return values, written


def _is_ignored(name: str) -> bool:
    """Return whether a property of Java's clients has been judged already, and has a harmless value."""
    return name == "interceptor.classes"


def _check(alias: str, values: Mapping[str, str], written: Mapping[str, str]) -> None:
    """Raise what a client raises for its properties, with the keys of the file."""
    try:
        ClientConfig.parse(values)
    except SemelError as error:
        named = [
            key for name, key in written.items() if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w])", error.message)
        ]
        where = f" In the file: {', '.join(sorted(named))}." if named else ""
        raise type(error)(f"cluster {alias}: {error.message}{where}", tag=error.tag) from None


def unread_keys(
    keys: FileKeys, flows: Iterable[tuple[str, str]], heartbeats: Iterable[tuple[str, str]]
) -> Iterator[str]:
    """Yield the clients' keys of clusters that no client of the flows and of the heartbeats reads."""
    sources, targets = ({flow[side] for flow in flows} for side in (0, 1))
    targets |= {target for _, target in heartbeats}
    for alias, row in keys.of_cluster.items():
        roles = {"consumer.": sources, "producer.": targets, "admin.": sources | targets}
        unread = (*OF_CLUSTER_UNREAD, *(role for role, read in roles.items() if alias not in read))
        unread += tuple(f"{role}{OVERRIDE}" for role in roles)
        for name in row:
            if name.startswith(unread) and not is_accepted(name):
                yield f"{alias}.{name}"


def _below(prefix: str, row: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
