"""Options that the source and the sink share: names and values as Spark and Kafka users know them.

Names are matched without regard to case, as everywhere in Spark; ``kafka.`` properties go to
:class:`~semel.config.ClientConfig`. What is not known is refused with the nearest known name, before anything is read
or written.
"""

from __future__ import annotations

from collections.abc import Mapping

from semel.config import known_properties, nearest
from semel.errors import ConfigError

__all__ = ["group_of", "kafka_properties", "known_names", "number", "one_of", "truth"]

#: Of a number: none that means anything has more, and Python reads no more than some thousand.
_DIGITS = 19
_SERVERS = "kafka.bootstrap.servers"


def kafka_properties(given: Mapping[str, object]) -> dict[str, str]:
    """Return the ``kafka.`` options without their prefix. Spark's own connector lower-cases them too."""
    found = {
        name[6:].lower(): str(value)
        for name, value in given.items()
        if name.lower().startswith("kafka.") and value is not None
    }
    if not found.get("bootstrap.servers"):
        near = next((name for name in given if _is_servers(name)), None)
        hint = f" {near!r} was given: did you mean kafka.bootstrap.servers?" if near else ""
        raise ConfigError(
            f"kafka.bootstrap.servers is missing. Nothing was read or written. Give it as host:port[,host:port].{hint}"
        )
    return found


def _is_servers(name: str) -> bool:
    """Return whether a name is another spelling of ``kafka.bootstrap.servers``."""
    plain = name.lower().replace("_", ".").removeprefix("kafka.")
    return name.lower() != _SERVERS and bool(nearest(plain, ["bootstrap.servers"]))


def known_names(given: Mapping[str, object], known: tuple[str, ...]) -> dict[str, str]:
    """Return the other options, under their canonical names."""
    canonical = {name.lower(): name for name in known}
    found: dict[str, str] = {}
    for name, value in given.items():
        if name.lower().startswith("kafka."):
            continue
        if name.lower() not in canonical:
            hint = _hint(name, known)
            raise ConfigError(
                f"{name:.200} is not a known option{hint} Nothing was read or written. Correct or remove it.",
                tag="UNKNOWN_OPTION",
            )
        if value is not None:
            found[canonical[name.lower()]] = str(value)
    return found


def _hint(name: str, known: tuple[str, ...]) -> str:
    kafka = ["group.id", *known_properties()]
    if name.lower().replace("_", ".") in kafka:
        return f"; did you mean kafka.{name.lower().replace('_', '.')}?"
    return nearest(name, known) or nearest(f"kafka.{name}", [f"kafka.{each}" for each in kafka]) or "."


def group_of(properties: dict[str, str]) -> str | None:
    """Take the group out of Kafka's properties: it is no matter of the connection."""
    group = properties.pop("group.id", None)
    if group is not None and not group.strip():
        raise ConfigError(
            "kafka.group.id is empty. Nothing was read or written. Name a group of this query alone, or take the"
            " option out."
        )
    return group


def one_of(options: Mapping[str, str], name: str, *choices: str) -> str:
    """Return an option with a fixed choice of values. The first is the default."""
    value = options.get(name, choices[0]).strip().lower()
    if value not in choices:
        raise ConfigError(
            f"{name}={value} is none of {', '.join(choices)}. Nothing was read or written. Give one of them."
        )
    return value


def truth(options: Mapping[str, str], name: str, default: bool) -> bool:
    """Return an option that is true or false."""
    value = options.get(name, str(default)).strip().lower()
    if value not in ("true", "false"):
        raise ConfigError(f"{name}={value} is neither true nor false. Nothing was read or written. Give one of them.")
    return value == "true"


def number(options: Mapping[str, str], name: str, default: int, minimum: int = 0) -> int:
    """Return an option that is a whole number."""
    value = options.get(name, str(default)).strip()
    if not value.isdecimal() or len(value) > _DIGITS or int(value) < minimum:
        raise ConfigError(
            f"{name}={value:.200} is not a whole number of at least {minimum}. Nothing was read or written. Give one"
            " in digits."
        )
    return int(value)
