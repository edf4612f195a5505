"""Valid inputs, spoilt: bytes, JSON, texts.

Every choice comes from the generator that is given, so a seed makes the same input again.
"""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

__all__ = ["spoilt_bytes", "spoilt_json", "spoilt_text"]

#: What readers of lengths and counts stumble over.
_NUMBERS = (
    0,
    1,
    -1,
    2,
    127,
    128,
    255,
    256,
    2**15 - 1,
    -(2**15),
    2**24,
    2**30,
    2**31 - 1,
    -(2**31),
    2**31,
    2**32 - 1,
    2**62,
    2**63 - 1,
    -(2**63),
)
_VARINTS = (
    b"\x00",
    b"\x01",
    b"\x02",
    b"\x7f",
    b"\x80\x01",
    b"\xff\xff\x03",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 9 + b"\x01",
    b"\xff" * 40,
    b"\xfe\xff\xff\xff\x0f",
)
_BYTES = (0, 1, 0x7F, 0x80, 0xFF)


def spoilt_bytes(random: Random, samples: Sequence[bytes], most: int = 4) -> bytes:
    """One of the samples with up to ``most`` changes."""
    data = bytearray(random.choice(samples))
    for _ in range(random.randint(1, most)):
        random.choice(_CHANGES)(random, data, samples)
    return bytes(data)


def _at(random: Random, data: bytearray) -> int:
    return random.randrange(len(data)) if data else 0


def _flip(random: Random, data: bytearray, samples: Sequence[bytes]) -> None:
    if data:
        data[_at(random, data)] ^= 1 << random.randrange(8)


def _set(random: Random, data: bytearray, samples: Sequence[bytes]) -> None:
    if data:
        data[_at(random, data)] = random.choice((*_BYTES, random.randrange(256)))


def _number(random: Random, data: bytearray, samples: Sequence[bytes]) -> None:
    size, form = random.choice(((2, ">H"), (4, ">I"), (8, ">Q")))
    at = _at(random, data)
    data[at : at + size] = struct.pack(form, random.choice(_NUMBERS) % (1 << 8 * size))


def _varint(random: Random, data: bytearray, samples: Sequence[bytes]) -> None:
    at = _at(random, data)
    data[at : at + random.randint(0, 2)] = random.choice(_VARINTS)


def _cut(random: Random, data: bytearray, samples: Sequence[bytes]) -> None:
    at = _at(random, data)
    del data[at : at + random.choice((1, 2, 4, 8, len(data)))]


def _double(random: Random, data: bytearray, samples: Sequence[bytes]) -> None:
    at = _at(random, data)
    data[at:at] = data[at : at + random.randint(1, 64)]


def _splice(random: Random, data: bytearray, samples: Sequence[bytes]) -> None:
    other = random.choice(samples)
    start = random.randrange(len(other) + 1)
    at = _at(random, data)
    data[at : at + random.choice((0, 8, len(data)))] = other[start : start + random.choice((8, 64, len(other)))]


def _noise(random: Random, data: bytearray, samples: Sequence[bytes]) -> None:
    data += random.randbytes(random.randint(1, 40))


_CHANGES: tuple[Callable[[Random, bytearray, Sequence[bytes]], None], ...] = (
    _flip,
    _set,
    _set,
    _number,
    _number,
    _varint,
    _cut,
    _double,
    _splice,
    _noise,
)

# ---- JSON

#: Stands for text that no writer of JSON makes.
_RAW = "\0raw"
#: Characters that one of these takes up in all, where a list repeats it.
_LONGEST = 1_000_000
_TEXTS = (
    "NaN",
    "-Infinity",
    "1e999",
    "-0",
    "1.0",
    "1e3",
    "9" * 5000,
    "0x10",
    "'a'",
    "[" * 100_000,
    "[" * 400 + "]" * 400,
    '{"a":' * 50_000,
    '{"a":' * 300 + "1" + "}" * 300,
    '"\\ud800"',
    '{"v":1,"v":2}',
    "[1,]",
    "",
)
_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    2**31,
    2**63,
    -(2**63),
    2**200,
    0.5,
    -2.0,
    "",
    "0",
    "x",
    "é\x00",
    "1" * 400,
    [],
    {},
    [[]],
    [None],
    {"": 0},
    {"0": None},
)
_KEYS = (
    "",
    "v",
    "0",
    "-1",
    "01",
    " 7",
    "1_0",
    "٣",
    "2147483648",
    "9" * 400,
    "9" * 5000,
    "x",
    "end",
    "began",
    "id",
    "error",
    "text",
    "name",
)


def spoilt_json(random: Random, samples: Sequence[bytes]) -> bytes:
    """One of the JSON samples with values of other kinds, keys that come or go, depth; now and then with changed bytes
    as well.
    """
    if random.random() < 0.15:
        return spoilt_bytes(random, samples)
    others = [json.loads(sample) for sample in samples]
    value = copy.deepcopy(random.choice(others))
    raw: list[str] = []
    for _ in range(random.randint(1, 3)):
        value = _changed(random, value, others, raw)
    text = json.dumps(value, separators=random.choice(((",", ":"), (", ", ": "))))
    for number, each in enumerate(raw):
        mark = json.dumps(f"{_RAW}{number}")
        text = text.replace(mark, each, max(1, _LONGEST // max(1, len(each)))).replace(mark, "0")
    data = text.encode("utf-8", "surrogatepass")
    return spoilt_bytes(random, [data], 1) if random.random() < 0.05 else data


def _changed(random: Random, value: Any, others: Sequence[Any], raw: list[str]) -> Any:
    places = _places(value)
    if not places or random.random() < 0.05:
        return _other(random, value, others, raw)
    parent, key = random.choice(places)
    what = random.randrange(6)
    if what == 0:
        del parent[key]
    elif what == 1 and isinstance(parent, dict):
        parent[random.choice(_KEYS)] = (
            parent[key] if random.random() < 0.5 else _other(random, parent[key], others, raw)
        )
    elif what == 2 and isinstance(parent, dict):
        parent[random.choice(_KEYS)] = parent.pop(key)
    else:
        parent[key] = _other(random, parent[key], others, raw)
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Everything below ``value`` that can be replaced, as what holds it and its key."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        parent = waiting.pop()
        keys = (
            list(parent) if isinstance(parent, dict) else list(range(len(parent))) if isinstance(parent, list) else []
        )
        for key in keys:
            found.append((parent, key))
            waiting.append(parent[key])
    return found


def _other(random: Random, value: Any, others: Sequence[Any], raw: list[str]) -> Any:
    what = random.randrange(8)
    if what == 0:
        raw.append(random.choice(_TEXTS))
        return f"{_RAW}{len(raw) - 1}"
    if what == 1:
        return {random.choice(_KEYS): copy.deepcopy(value)}
    if what == 2:
        return [copy.deepcopy(value)] * random.choice((1, 2, 50))
    if what == 3:
        other = copy.deepcopy(random.choice(others))
        places = _places(other)
        parent, key = random.choice(places) if places else ([other], 0)
        return parent[key]
    if what == 4 and isinstance(value, int):
        return value + random.choice((-1, 1, 0.5, 2**40))
    return copy.deepcopy(random.choice(_VALUES))


# ---- texts


def spoilt_text(random: Random, samples: Sequence[str], pieces: Sequence[str]) -> str:
    """One of the samples with pieces put in, taken out, doubled, or many times over."""
    text = random.choice(samples)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(text) + 1)
        behind = at + random.choice((0, 0, 1, 5, len(text)))
        piece = random.choice((*pieces, chr(random.randrange(0x250)), text[at:behind]))
        text = text[:at] + piece * random.choice((1, 1, 1, 2, 100)) + text[behind:]
        if len(text) > 100_000:
            break
    return text
