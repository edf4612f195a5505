"""A finding of ``semel doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Check", "Result"]


class Result(Enum):
    """The meaning of a finding."""

    OK = "ok"
    WARNING = "warning"
    REFUSED = "refused"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Check:
    """A finding: the subject, the facts, the meaning, and the advice."""

    subject: str
    found: str
    verdict: Result
    advice: str = ""
