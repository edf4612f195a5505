"""Properties of a connector as they are read: each value by its setting, each problem at its setting.

REST shows problems at their fields, so they are in Kafka Connect's words if it has them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from semel.connect.settings.definitions import type_name
from semel.errors import ConfigError, SemelError, Unsupported
from semel.settings import NOTHING, REQUIRED, Fault, Setting, WrongValue
from semel.settings.providers import Providers

__all__ = ["ConnectorProperties", "Problem"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with one setting. ``text`` is for the field."""

    setting: str
    text: str
    tag: str = "WRONG_VALUE"
    remedy: str = "Correct it."
    cause: BaseException | None = None
    unsupported: bool = False

    def error(self, name: str) -> SemelError:
        """Return the problem as an error."""
        kind = Unsupported if self.unsupported else ConfigError
        made = kind(f"connector {name!r}: {self.text} {NOTHING} {self.remedy}", tag=self.tag)
        made.__cause__ = self.cause
        return made


class ConnectorProperties:
    """The properties of a connector. ``given`` has variables replaced; ``raw`` is what may be shown."""

    def __init__(self, properties: Mapping[str, str], providers: Providers, programs: Collection[str] = ()) -> None:
        self.problems: list[Problem] = []
        #: Names that were asked for.
        self.known: set[str] = set()
        self.raw = {name: value.strip() for name, value in properties.items()}
        self.given: dict[str, str] = {}
        self._programs = programs
        for name, value in self.raw.items():
            try:
                self.given |= providers.resolve({name: value})
            except ConfigError as error:
                self.raised(name, error)
                self.given[name] = value

    def read(self, name: str, setting: Setting) -> Any:
        """Return the value of a setting, or its default. None after a problem, which is noted."""
        self.known.add(name)
        if name in self.given:
            return self._parsed(name, setting)
        if setting.default is REQUIRED:
            self.missing(name)
            return None
        return setting.default

    def text(self, name: str) -> str:
        """Return what is given for a name, or an empty text."""
        self.known.add(name)
        return self.given.get(name, "")

    def aliases(self, name: str) -> list[str]:
        """Return the names in a list, each once."""
        found = self.read(name, Setting(list, ()))
        if len(set(found)) < len(found):
            self.add(name, f"{name} names one twice.")
        return list(dict.fromkeys(found))

    def below(self, prefix: str) -> dict[str, str]:
        """Return what is given for names that begin with a prefix, without it."""
        names = [name for name in self.given if name.startswith(prefix)]
        self.known.update(names)
        return {name.removeprefix(prefix): self.given[name] for name in names}

    def _parsed(self, name: str, setting: Setting) -> Any:
        text = self.given[name]
        try:
            value = setting.parse(text)
        except WrongValue as wrong:
            self.invalid(name, _reason(wrong.fault, setting), secret=setting.secret)
            return None
        if setting.program and text not in self._programs:
            self.invalid(name, "The worker's file does not name it in semel.programs.allowed.", tag="PROGRAM")
        return value

    # ---- problems

    def add(self, setting: str, text: str, **more: Any) -> None:
        """Note a problem."""
        self.problems.append(Problem(setting, text, **more))

    def invalid(self, name: str, reason: str, *, secret: bool = False, **more: Any) -> None:
        """Note a value that a setting does not take."""
        shown = "[hidden]" if secret else self.raw.get(name, "")
        self.add(name, f"Invalid value {shown:.200} for configuration {name}: {reason}", **more)

    def missing(self, name: str) -> None:
        """Note a setting that must be given."""
        text = f'Missing required configuration "{name}" which has no default value.'
        self.add(name, text, tag="MISSING_OPTION", remedy="Give it, as for Kafka Connect.")

    def raised(self, setting: str, error: SemelError) -> None:
        """Note an error that was raised for a setting."""
        text, _, remedy = error.message.partition(f" {NOTHING} ")
        self.add(setting, text, tag=error.tag, remedy=remedy, cause=error, unsupported=isinstance(error, Unsupported))


def _reason(fault: Fault, setting: Setting) -> str:
    """Return Kafka Connect's words for what is wrong."""
    if fault is Fault.CHOICE:
        return f"String must be one of (case insensitive): {', '.join(setting.one_of)}."
    if fault is Fault.RANGE:
        least = "" if setting.also is None else f"{setting.also}, or "
        return f"Value must be {least}at least {setting.at_least}."
    if setting.kind is bool:
        return "Expected value to be either true or false."
    return f"Not a number of type {type_name(setting)}."
