"""Prepared transactions as text: only what ``str`` could have written is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from semel.errors import ConfigError
from semel.transaction.two_phase.prepared import Prepared
from tests.formats.unit.forms import WRITTEN

TEXT = (WRITTEN / "prepared.v1").read_bytes()


def changed(**keys: Any) -> bytes:
    return json.dumps({**json.loads(TEXT), **keys}).encode()


def of_topic(**keys: Any) -> bytes:
    return changed(topics={"out": {"id": "AbCdEfGhIjKlMnOpQrStUv", **keys}})


@pytest.mark.parametrize("given", [TEXT, of_topic(**{"0": [1, 1]}), changed(topics={}), changed(until=None)])
def test_what_str_writes_is_read(given: bytes) -> None:
    prepared = Prepared.parse(given)
    assert json.loads(str(prepared)) == json.loads(given)


@pytest.mark.parametrize(
    "given",
    [
        changed(extra=1),
        changed(prepared=-1),
        changed(prepared=True),
        changed(until=-1),
        changed(until="soon"),
        changed(producer=[-1, 0]),
        changed(producer=[1, 1 << 15]),
        changed(producer=[1, 0, 0]),
        changed(id="orders"),
        changed(topics={"out": {"id": "AbCdEfGhIjKlMnOpQrStUv"}}),
        of_topic(**{"0": [-1, 1]}),
        of_topic(**{"0": [1, 0]}),
        of_topic(**{"0": [1, 1, 1]}),
        of_topic(**{"-1": [1, 1]}),
        of_topic(**{"01": [1, 1]}),
        of_topic(**{"0": [1, 1]}, id="short"),
        of_topic(**{"0": [1, 1]}, id="AbCdEfGhIjKlMnOpQrSt!!"),
        changed(v=True),
        changed(v=2),
    ],
)
def test_what_str_never_writes_is_refused(given: bytes) -> None:
    with pytest.raises(ConfigError, match="SEMEL_NO_PREPARED"):
        Prepared.parse(given)
