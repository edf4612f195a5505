"""A finding of ``semel doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Check", "Result"]


class Result(Enum):
    """What a finding means."""

    OK = "ok"
    WARNING = "warning"
    REFUSED = "refused"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, what was found, and what there is to do."""

    subject: str
    found: str
    verdict: Result
    advice: str = ""
