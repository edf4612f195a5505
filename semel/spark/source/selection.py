"""The selection of topics: ``subscribe``, ``subscribePattern`` or ``assign``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from semel.errors import ConfigError
from semel.settings import split_list
from semel.strict_json import read_object

__all__ = [
    "SELECTIONS",
    "Assign",
    "Selection",
    "Subscribe",
    "SubscribePattern",
    "malformed",
    "read_json",
    "selection_of",
]

SELECTIONS = ("subscribe", "subscribePattern", "assign")
#: Longer ones take seconds to be understood, in each process that makes the source.
_LONGEST_PATTERN = 10_000
#: What counts in a regular expression for where its classes begin and end; a ] right after the beginning is a
#: character.
_CLASS_MARKS = re.compile(r"\\.|\[\^?\]?|\]|&&", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Subscribe:
    """These topics, with all their partitions."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """Every topic whose whole name matches, but Kafka's internal topics and semel's own progress."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions and no others."""

    partitions: tuple[tuple[str, int], ...]


Selection = Subscribe | SubscribePattern | Assign


def selection_of(options: Mapping[str, str]) -> Selection:
    """Return the selection of the options. Raise :class:`ConfigError` for none or several, or for one that selects
    nothing.
    """
    given = [name for name in SELECTIONS if name in options]
    if len(given) != 1:
        found = f"{' and '.join(given)} were" if given else "none was"
        raise ConfigError(
            f"one of subscribe, subscribePattern and assign says what to read, and {found} given. Nothing was read."
            " Give one of them."
        )
    name, text = given[0], options[given[0]].strip()
    if name == "assign":
        return Assign(_assigned(text))
    if name == "subscribePattern":
        return SubscribePattern(_pattern(text))
    topics = tuple(dict.fromkeys(split_list(text)))
    if not topics:
        raise ConfigError("subscribe names no topic. Nothing was read. Give it as topic[,topic].")
    return Subscribe(topics)


def _pattern(text: str) -> str:
    if len(text) > _LONGEST_PATTERN:
        raise ConfigError(
            f"subscribePattern is longer than {_LONGEST_PATTERN} characters. Nothing was read. List the topics with"
            " subscribe."
        )
    _check_flat_classes(text)
    try:
        re.compile(text)
    except (
        re.error,
        RecursionError,
        OverflowError,
        ValueError,
    ) as error:  # the last of a number with thousands of digits
        raise ConfigError(
            f"subscribePattern={text:.200} is no regular expression ({error}). Nothing was read. Correct it. Patterns"
            r" are Python's, and lack some of Java's syntax: \Q...\E, \p{...}, \z."
        ) from None
    if not text:
        raise ConfigError(
            "subscribePattern is empty. Nothing was read. Give a regular expression that matches whole topic names."
        )
    return text


def _check_flat_classes(pattern: str) -> None:
    """Check that a pattern means in Python what it means in Java, as users of Spark's own source write it.

    Raises :class:`ConfigError` for a class within a class and for ``&&`` in one: Python takes both as characters.
    """
    inside = False
    for found in _CLASS_MARKS.finditer(pattern):
        mark = found[0]
        if inside and (mark.startswith("[") or mark == "&&"):
            raise ConfigError(
                f"subscribePattern={pattern:.200} has {mark!r} within [...], which Java takes for classes that are"
                " joined or cut, and Python, which reads it here, for characters. Nothing was read. Write one class"
                r" without others in it, or \[ and \& for the characters.",
                tag="WRONG_VALUE",
            )
        if mark.startswith("["):
            inside = True
        elif mark == "]":
            inside = False


def _assigned(text: str) -> tuple[tuple[str, int], ...]:
    value = read_json("assign", text, '{"topic":[0,1]}')
    listed = [(topic, index) for topic, indexes in value.items() if isinstance(indexes, list) for index in indexes]
    if (
        not listed
        or not all(isinstance(v, list) and v for v in value.values())
        or not all(type(i) is int and i >= 0 for _, i in listed)
    ):
        raise malformed("assign", text, '{"topic":[0,1]}')
    return tuple(sorted(set(listed)))


def read_json(name: str, text: str, example: str) -> dict[str, Any]:
    """Return an option's JSON object. Raise :class:`ConfigError` that shows an example of one."""
    try:
        return read_object(text)
    except ValueError:
        raise malformed(name, text, example) from None


def malformed(name: str, text: str, example: str) -> ConfigError:
    """Return the error of an option in another form."""
    others = {"startingOffsets": " or earliest, latest, committed", "endingOffsets": " or latest"}.get(name, "")
    return ConfigError(f"{name}={text:.1000} cannot be understood. Nothing was read. Give it like {example}{others}.")
