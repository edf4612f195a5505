"""Setting: its type, default and allowed values, and the value of a text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = ["INT_MAX", "REQUIRED", "Fault", "Setting", "WrongValue", "as_text", "split_list"]

REQUIRED: Any = object()
#: The largest number of Kafka's type INT.
INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
#: Python's own int() takes underscores, and digits of other scripts.
_WHOLE = re.compile(r"-?[0-9]{1,19}")


class Fault(Enum):
    """Kind of a value that a setting does not take."""

    TYPE = "type"
    RANGE = "range"
    CHOICE = "choice"


class WrongValue(ValueError):
    """The text is no value of the setting. The message says what the setting takes."""

    def __init__(self, fault: Fault, wanted: str) -> None:
        self.fault = fault
        super().__init__(wanted)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. ``kind`` is str, int, float, bool, type (the name of a class), or list: texts separated by commas.

    A ``secret`` is never shown. ``one_of`` are the allowed texts, in any case of their letters. A ``program`` runs
    where the task of a connector is, and must be in ``semel.programs.allowed`` of the worker's file. ``also`` is
    allowed below ``at_least``: -1 often means the broker's default.
    """

    kind: type
    default: Any = REQUIRED
    at_least: float | None = None
    documentation: str = ""
    secret: bool = False
    one_of: tuple[str, ...] = ()
    program: bool = False
    at_most: int | None = None
    also: int | None = None

    @property
    def wanted(self) -> str:
        """What it takes, in words."""
        if self.one_of:
            return f"one of {', '.join(self.one_of)}"
        if self.kind is bool:
            return "true or false"
        text = "a whole number" if self.kind is int else "a number"
        if self.at_least is not None:
            text += f" of at least {self.at_least}" if self.at_most is None else f" from {self.at_least}"
        if self.at_most is not None:
            text += f" to {self.at_most}"
        return text if self.also is None else f"{text}, or {self.also}"

    def parse(self, text: str) -> Any:
        """Return the value of a text; one of ``one_of`` as it is spelled there. Raise :class:`WrongValue`."""
        if self.one_of:
            for choice in self.one_of:
                if choice.lower() == text.strip().lower():
                    return choice
            raise WrongValue(Fault.CHOICE, self.wanted)
        if self.kind is list:
            return split_list(text)
        if self.kind is bool:
            if text.strip().lower() not in ("true", "false"):
                raise WrongValue(Fault.TYPE, self.wanted)
            return text.strip().lower() == "true"
        return self._number(text) if self.kind in (int, float) else text

    def _number(self, text: str) -> float:
        try:
            if self.kind is int and not _WHOLE.fullmatch(text.strip()):
                raise ValueError
            value: float = self.kind(text)
        except ValueError:
            raise WrongValue(Fault.TYPE, self.wanted) from None
        most = self.at_most if self.at_most is not None else _LONG_MAX
        if self.kind is int and abs(value) > most:
            raise WrongValue(Fault.TYPE, self.wanted)
        if self.at_least is not None and value < self.at_least and value != self.also:
            raise WrongValue(Fault.RANGE, self.wanted)
        return value


def split_list(text: str) -> list[str]:
    """Return the texts between commas, without blanks around them."""
    return [one.strip() for one in text.split(",") if one.strip()]


def as_text(value: Any) -> str:
    """Return a value as a properties file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
