"""The file that says which broker was left running."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.errors import ConfigError
from semel.sandbox import background


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"v":2}', '{"pids":7}', "[" * 100_000], ids=lambda text: text[:10])
def test_damage_is_named_and_nothing_is_ended(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "cache_directory", lambda: tmp_path)
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "state.json").write_text(text)
    for command in (background.status, background.stop):
        with pytest.raises(ConfigError, match=r"state\.json") as raised:
            command()
        assert raised.value.tag == "BROKER_STATE"
    assert (tmp_path / "broker" / "state.json").read_text() == text


def test_without_a_file_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "cache_directory", lambda: tmp_path)
    assert background.status() is None
