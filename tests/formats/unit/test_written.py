"""Each form that is kept or handed over, against a copy that was written once: what was written can be read, and what
is written has not changed.

A failure here means that another version of semel could not read what this one leaves behind, or the other way round. A
form that shall change gets a new version, and a copy of its own beside the old one; a copy that is there is never
touched (docs/formats.md).
"""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from pathlib import Path

import pytest

from tests.formats.unit.forms import FORMS, WRITTEN, Form, today


def copy_of(form: Form, version: int) -> Path:
    return WRITTEN / f"{form.name}.v{version}"


def plain(value: object) -> object:
    """All fields, those too that do not count when two are compared."""
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def check(form: Form, version: int, copy: bytes) -> None:
    """The copy says what it said, and the newest one is what is written today."""
    assert plain(form.read(today(copy))) == plain(form.says[version])
    if version == form.newest:
        assert form.write() == today(copy), (
            f"{form.name} is written otherwise than in version {version}: give the new form a version of its own"
        )


COPIES = [pytest.param(form, version, id=f"{form.name}-v{version}") for form in FORMS for version in form.says]


@pytest.mark.parametrize(("form", "version"), COPIES)
def test_what_was_written_is_read_and_written_still(form: Form, version: int) -> None:
    check(form, version, copy_of(form, version).read_bytes())


@pytest.mark.parametrize(("form", "version"), COPIES)
def test_control_a_changed_copy_fails(form: Form, version: int) -> None:
    copy = copy_of(form, version).read_bytes()
    for changed in (copy[:-1], copy + copy[-1:], copy.replace(b"o", b"0", 1), copy.replace(b'"', b"'"), b""):
        if changed != copy:
            with pytest.raises(Exception):  # noqa: B017, PT011  # whatever the reader says of damage, or this check
                check(form, version, changed)


def test_each_form_has_a_copy_of_its_newest_version_and_each_copy_its_form() -> None:
    assert all(form.newest in form.says and form.newest == max(form.says) for form in FORMS)
    assert {path.name for path in WRITTEN.iterdir()} == {
        f"{form.name}.v{version}" for form in FORMS for version in form.says
    }
