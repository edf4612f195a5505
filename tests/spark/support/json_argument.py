"""The argument of a test program: one word of its command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self


@dataclass(frozen=True)
class Argument:
    """The fields of a subclass, as JSON."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse it again."""
        return cls(**json.loads(text))

    def __str__(self) -> str:
        return json.dumps(asdict(self))
