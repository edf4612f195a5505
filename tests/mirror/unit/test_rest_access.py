"""Who may ask the mirror's REST: users of its file, and pages of sites that it names."""

from __future__ import annotations

from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from semel.mirror.config.rest import read_rest
from semel.mirror.rest.app import serving_rest
from semel.web.basic_header import basic_header


def status(address: str, **headers: str) -> int:
    try:
        with urlopen(Request(f"{address}/health", headers=headers), timeout=30) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def test_logins_and_pages_of_other_sites(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("ada=secret\n")
    plain = {
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": "http://127.0.0.1:0",
        "semel.rest.credentials.file": str(users),
        "access.control.allow.origin": "https://good.example",
        "tasks.max": "1",
    }
    rest, used = read_rest(plain)
    assert rest is not None
    assert used == plain.keys() - {"tasks.max"}
    login = {"Authorization": basic_header("ada", "secret")}
    with serving_rest(rest, []) as (address,):
        assert status(address) == 401
        assert status(address, Authorization=basic_header("ada", "wrong")) == 401
        assert status(address, **login) == 200
        assert status(address, **login, Origin="https://good.example") == 200
        assert status(address, **login, Origin="https://other.example") == 403
