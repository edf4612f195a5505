"""Logins of AWS: a token that Amazon's own signer makes, without a network, and what is lacking."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from semel.errors import ConfigError
from semel.security import AwsLogin, Sasl
from semel.wire.oauth import token


@pytest.fixture(autouse=True)
def _no_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "REGION", "DEFAULT_REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    (tmp_path / "credentials").write_text("[ops]\naws_access_key_id = OPS\naws_secret_access_key = hidden\n")


def signed(sasl: Sasl) -> tuple[str, dict[str, list[str]]]:
    """The host and the query of the address that a token is."""
    text = token(sasl)
    address = urlsplit(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
    return address.netloc, parse_qs(address.query)


def test_a_token_of_the_machines_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "MINE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    sasl = Sasl("OAUTHBEARER", aws=AwsLogin("eu-west-1"))
    host, query = signed(sasl)
    assert host == "kafka.eu-west-1.amazonaws.com"
    assert query["Action"] == ["kafka-cluster:Connect"]
    assert query["X-Amz-Credential"][0].startswith("MINE/")
    assert signed(sasl)[1]["X-Amz-Date"] == query["X-Amz-Date"], "one token serves all connections"


def test_a_profile_and_the_machines_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    host, query = signed(Sasl("OAUTHBEARER", aws=AwsLogin(profile="ops")))
    assert host == "kafka.us-east-2.amazonaws.com"
    assert query["X-Amz-Credential"][0].startswith("OPS/")
    assert int(query["X-Amz-Expires"][0]) > 60
    assert query["X-Amz-Date"][0][:4] <= time.strftime("%Y")


@pytest.mark.parametrize(
    ("login", "words"),
    [
        (AwsLogin(), "AWS_REGION"),
        (AwsLogin("eu-north-1"), "AWS gave no login"),
        (AwsLogin("eu-west-1", profile="none"), "AWS gave no login"),
    ],
)
def test_what_is_lacking_is_named(login: AwsLogin, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        token(Sasl("OAUTHBEARER", aws=login))
    assert refused.value.tag == "SASL_LOGIN"
    assert words in refused.value.message
    assert "Nothing was sent." in refused.value.message
