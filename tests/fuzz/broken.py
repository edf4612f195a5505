"""Parsers that are broken on purpose, each in a way that a fuzzer must find, and sound ones that it must not take for
broken.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from random import Random

from semel.errors import DataLoss
from tests.fuzz.targets import KIB, Target

__all__ = ["TARGETS"]

#: The broken ones meet this byte as the first one in one input of some.
_FATAL = 7


def _make(random: Random) -> bytes:
    return bytes([random.randrange(16)]) + random.randbytes(random.randrange(64))


def _target(name: str, broken: Callable[[bytes], object]) -> Target:
    def read(data: bytes) -> None:
        if data[0] == _FATAL:
            broken(data)
        elif data[0] % 2:
            raise DataLoss("this is how a sound parser refuses")

    return Target(name, _make, read, factor=10, slack=64 * KIB)


def _forever(data: bytes) -> None:
    while data:
        pass


_calls = count()


def _table_made_anew(data: bytes) -> None:
    """As the interpreter does with a table of its own when it is full, whatever input is read then."""
    if next(_calls) % 20 == 0:
        bytearray(1 << 20)


TARGETS = {
    target.name: target
    for target in (
        _target("sound", lambda data: None),
        _target("loud", lambda data: print("x" * 5_000, file=sys.stderr)),
        _target("table-made-anew", _table_made_anew),
        _target("index", lambda data: data[1000]),
        _target("loop", _forever),
        _target("allocates", lambda data: bytearray(1 << 20)),
        _target("more-than-there-is", lambda data: bytearray(1 << 40)),
        _target("dies", lambda data: os.kill(os.getpid(), signal.SIGSEGV)),
    )
}
