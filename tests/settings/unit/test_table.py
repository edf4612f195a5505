"""Values of settings: what each type takes, and how the rest is named."""

from __future__ import annotations

from typing import Any

import pytest

from semel.settings import INT_MAX, Fault, Setting, WrongValue, as_text


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        (Setting(int), "0", 0),
        (Setting(int), " 7 ", 7),
        (Setting(int), "007", 7),
        (Setting(int), "-5", -5),
        (Setting(int, at_least=0), "9000000000", 9_000_000_000),
        (Setting(int, at_least=1, also=-1), "-1", -1),
        (Setting(int, at_most=INT_MAX), "2147483647", INT_MAX),
        (Setting(float, at_least=0), "0.5", 0.5),
        (Setting(bool), " TRUE ", True),
        (Setting(bool), "False", False),
        (Setting(list), " a, b ,, c", ["a", "b", "c"]),
        (Setting(list), "", []),
        (Setting(str), " as it is ", " as it is "),
        (Setting(type), "a.B", "a.B"),
        (Setting(str, one_of=("none", "gzip")), " GZIP ", "gzip"),
        (Setting(str, one_of=("REQUIRED", "REQUESTED")), "required", "REQUIRED"),
    ],
)
def test_values(setting: Setting, text: str, value: Any) -> None:
    assert setting.parse(text) == value


@pytest.mark.parametrize(
    ("setting", "text", "fault", "wanted"),
    [
        *(
            (Setting(int), text, Fault.TYPE, "a whole number")
            for text in (
                "",
                "+1",
                "1.5",
                "many",
                "\u00b2",
                "1\u00b2",
                "0x10",
                "1_000",
                "\u0663",
                "9" * 5000,
                str(2**63),
            )
        ),
        (Setting(int, at_least=0), "-1", Fault.RANGE, "a whole number of at least 0"),
        (Setting(int, at_least=1, also=-1), "0", Fault.RANGE, "a whole number of at least 1, or -1"),
        (Setting(int, at_least=1, at_most=INT_MAX), "2147483648", Fault.TYPE, "a whole number from 1 to 2147483647"),
        (Setting(float), "much", Fault.TYPE, "a number"),
        (Setting(float, at_least=0), "-0.1", Fault.RANGE, "a number of at least 0"),
        (Setting(bool), "yes", Fault.TYPE, "true or false"),
        (Setting(str, one_of=("a", "b")), "c", Fault.CHOICE, "one of a, b"),
    ],
)
def test_what_a_setting_does_not_take(setting: Setting, text: str, fault: Fault, wanted: str) -> None:
    with pytest.raises(WrongValue) as wrong:
        setting.parse(text)
    assert wrong.value.fault is fault
    assert str(wrong.value) == setting.wanted == wanted


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (3, "3"), (("a", "b"), "a,b"), ([], ""), ("x", "x")])
def test_a_value_as_text(value: Any, text: str) -> None:
    assert as_text(value) == text
