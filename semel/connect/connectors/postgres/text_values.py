"""PostgreSQL's texts as values: moments, intervals, arrays, hstore.

Days are counted in the calendar that PostgreSQL has, also before 1582 and before Christ. Python's own dates end at the
years 1 and 9999.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

__all__ = [
    "days",
    "duration_us",
    "hstore_pairs",
    "iso_duration",
    "items",
    "microseconds",
    "money",
    "time_us",
    "zoned_time",
    "zoned_timestamp",
]

_DAY_US = 86_400_000_000
_INFINITE = ("infinity", "-infinity")
#: What Debezium has for infinite timestamps, in microseconds: they come from PostgreSQL's own Java driver.
_FOREVER_US = 9_223_372_036_825_200_000
_EARLIEST_US = -9_223_372_036_832_400_000
_MOST_DAYS = 2**31 - 1
#: The average length of a month, in microseconds: a twelfth of 365.25 days.
_MONTH_US = 2_629_800_000_000
_INTERVAL = re.compile(
    r"(?:(-?\+?\d+) years?)? ?(?:(-?\+?\d+) mons?)? ?(?:(-?\+?\d+) days?)? ?(?:([+-])?(\d+):(\d\d):(\d\d)(?:\.(\d+))?)?"
)
_PAIR = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:NULL|"((?:[^"\\]|\\.)*)")', re.DOTALL)


def days(text: str) -> int:
    """Return the days since 1970 of a date. An infinite one is the largest or the smallest number of 32 bits."""
    if text in _INFINITE:
        return _MOST_DAYS if text == "infinity" else -_MOST_DAYS - 1
    before_christ = text.endswith(" BC")
    year, month, day = map(int, (text[:-3] if before_christ else text).split("-"))
    return _civil_days(1 - year if before_christ else year, month, day)


def _civil_days(year: int, month: int, day: int) -> int:
    """Return the days since 1970, for any year: years begin with March here, and come in eras of 400."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def time_us(text: str) -> int:
    """Return the microseconds of a time of the day."""
    whole, _, fraction = text.partition(".")
    hours, minutes, seconds = whole.split(":")
    made = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000
    return made + int(fraction.ljust(6, "0")) if fraction else made


def microseconds(text: str) -> int:
    """Return the microseconds since 1970 of a timestamp without a zone."""
    if text in _INFINITE:
        return _FOREVER_US if text == "infinity" else _EARLIEST_US
    before_christ = text.endswith(" BC")
    day, _, time = (text[:-3] if before_christ else text).partition(" ")
    return days(f"{day} BC" if before_christ else day) * _DAY_US + time_us(time)


def zoned_timestamp(text: str) -> str:
    """Return a timestamp with a zone in ISO's form. The session's zone is UTC."""
    if text in _INFINITE:
        return text
    before_christ = text.endswith(" BC")
    day, _, time = (text[:-3] if before_christ else text).partition(" ")
    time, _, fraction = time.removesuffix("+00").partition(".")
    if before_christ:
        year, _, rest = day.partition("-")
        number = 1 - int(year)
        day = f"{'-' if number < 0 else ''}{abs(number):04d}-{rest}"
    elif len(day) > len("9999-12-31"):
        day = f"+{day}"
    return f"{day}T{time}.{fraction.ljust(6, '0')}Z"


def zoned_time(text: str) -> str:
    """Return a time with a zone as a time in UTC."""
    at = max(text.rfind("+"), text.rfind("-"))
    parts = [int(one) for one in text[at + 1 :].split(":")] + [0, 0]
    offset = (parts[0] * 3600 + parts[1] * 60 + parts[2]) * 1_000_000
    moment = (time_us(text[:at]) - (offset if text[at] == "+" else -offset)) % _DAY_US
    seconds, fraction = divmod(moment, 1_000_000)
    shown = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{shown}.{fraction:06d}".rstrip("0") + "Z" if fraction else f"{shown}Z"


def _interval(text: str) -> tuple[int, int, int, int]:
    """Return the years, months, days and microseconds of an interval."""
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r:.60} is no interval")
    years, months, some_days = (int(found[number] or 0) for number in (1, 2, 3))
    rest = time_us(f"{found[5]}:{found[6]}:{found[7]}.{found[8] or 0}") if found[5] else 0
    return years, months, some_days, -rest if found[4] == "-" else rest


def duration_us(text: str) -> int:
    """Return the microseconds of an interval. A month has a twelfth of a year, a day 24 hours."""
    years, months, some_days, rest = _interval(text)
    return (years * 12 + months) * _MONTH_US + some_days * _DAY_US + rest


def iso_duration(text: str) -> str:
    """Return an interval in ISO's form, with all of its parts."""
    years, months, some_days, rest = _interval(text)
    sign, left = ("-" if rest < 0 else ""), abs(rest)
    seconds, fraction = divmod(left, 1_000_000)
    shown = f"{seconds % 60}" + (f".{fraction:06d}".rstrip("0") if fraction else "")
    hours, minutes = seconds // 3600, seconds // 60 % 60
    parts = [
        f"{sign if one != '0' else ''}{one}{unit}"
        for one, unit in ((str(hours), "H"), (str(minutes), "M"), (shown, "S"))
    ]
    return f"P{years}Y{months}M{some_days}DT{''.join(parts)}"


def money(text: str) -> Decimal:
    """Return an amount, as the locale C shows it: ``-$1,234.50``."""
    number = Decimal("".join(one for one in text if one.isdigit() or one == "."))
    return -number if "-" in text or text.startswith("(") else number


def hstore_pairs(text: str) -> dict[str, str | None]:
    """Return the pairs of an hstore."""
    return {_unescaped(found[1]): None if found[2] is None else _unescaped(found[2]) for found in _PAIR.finditer(text)}


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL) if "\\" in text else text


def items(text: str, read: Callable[[str], Any], delimiter: str = ",") -> list[Any]:
    """Return the items of an array. Raise ``ValueError`` for one of several dimensions: no schema says it."""
    if text.startswith("["):  # its first index is not 1
        text = text[text.index("=") + 1 :]
    made: list[Any] = []
    item: Any
    at = 1
    while text[at] != "}":
        if text[at] == delimiter:
            at += 1
        if text[at] == "{":
            raise ValueError("an array of several dimensions has no schema in a record")
        if text[at] == '"':
            end = at + 1
            while text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            item, at = read(_unescaped(text[at + 1 : end])), end + 1
        else:
            end = at
            while text[end] not in (delimiter, "}"):
                end += 1
            word = text[at:end]
            item, at = None if word == "NULL" else read(_unescaped(word)), end
        made.append(item)
    return made
