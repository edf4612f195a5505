"""The keys of the file, each in its place: plain, of a cluster (``A.…``) or of a flow (``A->B.…``).

Nothing in the file is passed over in silence: a key that has no meaning here is refused, or listed as one that changes
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import permutations
from typing import Any

from semel.config import is_client_property
from semel.errors import ConfigError
from semel.mirror.config.keys import (
    ACCEPTED,
    ALIASES,
    CLIENT,
    CLUSTER,
    FLOW,
    NOTHING,
    OF_SIDES,
    REFUSED,
    ROLES,
    is_accepted,
    is_ignored_client_key,
    is_shared,
)
from semel.settings import nearest, read_value, split_list, unknown

__all__ = ["FileKeys"]

_ALIAS = re.compile(r"[A-Za-z0-9._-]+")


class FileKeys:
    """The keys of one file. ``accepted`` are those that change nothing here.

    Raises :class:`ConfigError` for a key that is unknown, or that would change which records arrive.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = {key: value.strip() for key, value in values.items()}
        self.clusters = self._aliases()
        self.plain: dict[str, str] = {}
        self.of_cluster: dict[str, dict[str, str]] = {alias: {} for alias in self.clusters}
        self.of_flow: dict[tuple[str, str], dict[str, str]] = {}
        self.accepted: list[str] = []
        for key, value in self._values.items():
            self._sort(key, value)

    def _aliases(self) -> list[str]:
        aliases = split_list(self._values.get("clusters", ""))
        if len(aliases) < 2 and any(key in self._values for key in (*ALIASES, "connector.class")):
            raise ConfigError(
                "this is the configuration of a connector, and no file of MirrorMaker 2: clusters is missing. Nothing"
                " was copied. Write clusters = A, B, then A.bootstrap.servers, B.bootstrap.servers, A->B.enabled = true"
                " and A->B.topics.",
                tag="WRONG_VALUE",
            )
        if len(aliases) < 2:
            raise ConfigError(
                "clusters names fewer than two clusters, so there is nothing to copy from one to the other. Nothing was"
                " copied. Name them all: clusters = A, B",
                tag="WRONG_VALUE",
            )
        wrong = [alias for alias in aliases if not _ALIAS.fullmatch(alias)]
        if wrong or len(set(aliases)) < len(aliases):
            what = f"{wrong[0]!r:.100} is no alias" if wrong else "an alias is there twice"
            raise ConfigError(
                f"clusters: {what}. Nothing was copied. Use letters, digits, dots, dashes and underscores, each alias"
                " once.",
                tag="WRONG_VALUE",
            )
        return aliases

    # ---- each key in its place

    def _sort(self, key: str, value: str) -> None:
        if key == "clusters":
            return
        flow = next(((a, b) for a, b in self.pairs() if key.startswith(f"{a}->{b}.")), None)
        if flow is not None:
            name = key.removeprefix(f"{flow[0]}->{flow[1]}.")
            self.of_flow.setdefault(flow, {})[name] = value
            self._judge(key, name, value, FLOW, client=_is_of_flow)
        elif "->" in key:
            raise self.unknown_cluster(key)
        elif key.startswith(OF_SIDES):
            self.plain[key] = value
            if key not in ALIASES:  # MirrorMaker 2 passes them over too, but below a flow
                self.accepted.append(key)
        elif (alias := self._alias_of(key)) is not None:
            name = key.removeprefix(f"{alias}.")
            self.of_cluster[alias][name] = value
            self._judge(key, name, value, CLUSTER, client=is_client_property)
        else:
            self.plain[key] = value
            self._judge(key, key, value, (*FLOW, *CLUSTER), client=is_shared)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the aliases of source and target of each flow that the clusters allow."""
        return permutations(self.clusters, 2)

    def _alias_of(self, key: str) -> str | None:
        return max((alias for alias in self.clusters if key.startswith(f"{alias}.")), key=len, default=None)

    def _judge(self, key: str, name: str, value: str, used: Iterable[str], *, client: Callable[[str], bool]) -> None:
        """Raise :class:`ConfigError` unless a key is used, may be passed over, or is a client's, which looks at it
        itself. ``client`` says which names are a client's in this place.
        """
        for pattern, reason, harmless in REFUSED:
            if re.fullmatch(pattern, name):
                if value not in harmless:
                    raise ConfigError(
                        f"{key}={value:.100} {reason} Nothing was copied. Take it out.", tag="WRONG_VALUE"
                    )
                self.accepted.append(key)
                return
        if is_accepted(name):
            self.accepted.append(key)
        elif not (name in used or name.startswith(ROLES) or client(name)):
            if is_ignored_client_key(name):
                self.accepted.append(key)
                return
            if name.endswith(".bootstrap.servers"):
                raise self.unknown_cluster(key)
            hint = nearest(name, [*used, *ACCEPTED.exact, *CLIENT])
            raise unknown(key, (), NOTHING, what="key", hint=hint)

    def unknown_cluster(self, key: str) -> ConfigError:
        """Return the error for a key of a cluster that the file does not name."""
        return ConfigError(
            f"{key} names a cluster that clusters does not: it has {', '.join(self.clusters)}. Nothing was copied."
            " Correct the alias, or add it to clusters.",
            tag="UNKNOWN_OPTION",
        )

    # ---- what applies to a flow

    def get(self, flow: tuple[str, str], name: str) -> tuple[str, str] | None:
        """Return the key that applies to a flow, with its value."""
        places = ((f"{flow[0]}->{flow[1]}.{name}", self.of_flow.get(flow, {})), (name, self.plain))
        return next(((key, row[name]) for key, row in places if name in row), None)

    def get_or_default(self, flow: tuple[str, str], name: str) -> tuple[str, str]:
        """Return the key that applies to a flow, with its value or the default."""
        return self.get(flow, name) or (name, FLOW[name].default)

    def value(self, flow: tuple[str, str], name: str) -> Any:
        """Return the value that applies to a flow, or the default. Raise :class:`ConfigError` for a wrong one."""
        setting = FLOW[name]
        written = self.get(flow, name)
        return setting.default if written is None else read_value(*written, setting, NOTHING)

    def interval(self, flow: tuple[str, str], of: str) -> int:
        """Return the seconds of what a flow does again and again, or 0 if it does not."""
        return int(self.value(flow, f"{of}.interval.seconds")) if self.value(flow, f"{of}.enabled") else 0

    def exactly_once(self, flow: tuple[str, str]) -> bool:
        """Return True for exactly once, also where the file is silent, and False where it asks for at least once.

        Raise :class:`ConfigError` for what contradicts itself.
        """
        asked: dict[str, bool] = {}
        ((name, setting),) = CLUSTER.items()
        places = ((f"{flow[1]}.{name}", self.of_cluster[flow[1]]), (name, self.plain))
        for key, row in places:
            if name in row:
                asked[f"{key}={row[name]}"] = read_value(key, row[name], setting, NOTHING) != "disabled"
                break
        written = self.get(flow, "transaction.producer")
        if written is not None:
            asked["=".join(written)] = self.value(flow, "transaction.producer")
        if self.value(flow, "exactly.once.support") == "required":
            asked["exactly.once.support=required"] = True
        if len(set(asked.values())) > 1:
            raise ConfigError(
                f"{' and '.join(asked)} contradict each other. Nothing was copied. Set both to exactly once, or both"
                " to at least once.",
                tag="WRONG_VALUE",
            )
        return next(iter(asked.values()), True)


def _is_of_flow(name: str) -> bool:
    """Return whether a key below a flow is one of a client of its source or target."""
    side = next((side for side in OF_SIDES if name.startswith(side)), None)
    return side is not None and is_client_property(name.removeprefix(side))
