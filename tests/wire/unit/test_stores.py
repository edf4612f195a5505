"""Java's stores, made by keytool: what is in them, and what cannot be read."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.sandbox import Secured
from semel.wire.security import tls_context
from tests.support.java_stores import KEY_PASSWORD, STORE_PASSWORD, Kind, keystore, truststore


def context(**properties: Any) -> ssl.SSLContext:
    given = {"bootstrap.servers": "b:1", "security.protocol": "SSL", **properties}
    tls = ClientConfig.parse(given).security.tls
    assert tls is not None
    return tls_context(tls)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_what_is_in_a_store(tmp_path: Path, kind: Kind) -> None:
    """By what the file begins with, whatever its type or name says: Java does the same."""
    secured = Secured.make(tmp_path, {})
    (tmp_path / "other").mkdir()
    trusted = truststore(tmp_path, kind, secured.truststore, Secured.make(tmp_path / "other", {}).truststore)
    held = keystore(tmp_path, kind, secured.certificate("alice"))
    trust = {"ssl.truststore.location": str(trusted), "ssl.truststore.password": STORE_PASSWORD}
    show = {"ssl.keystore.location": str(held), "ssl.keystore.password": STORE_PASSWORD}
    if kind == "JKS":
        show["ssl.key.password"] = KEY_PASSWORD
    for type_ in ({}, {"ssl.truststore.type": kind, "ssl.keystore.type": "JKS"}):
        assert len(context(**trust, **show, **type_).get_ca_certs()) == 2

    for wrong, words in (
        ({**trust, "ssl.truststore.password": "another"}, "ssl.truststore.password"),
        ({**trust, **show, "ssl.keystore.password": "another"}, "ssl.keystore.password"),
        ({**trust, **show, "ssl.keystore.location": str(trusted)}, "has no private key"),
    ):
        with pytest.raises(ConfigError) as refused:
            context(**wrong)
        assert refused.value.tag == "TLS_STORE"
        assert words in refused.value.message
        assert "another" not in refused.value.message


def test_a_store_that_is_damaged(tmp_path: Path) -> None:
    for data in (b"\xfe\xed\xfe\xed" + b"\0" * 5, b"\x30\x03abc", b"\x30"):
        path = tmp_path / "damaged"
        path.write_bytes(data)
        with pytest.raises(ConfigError, match="TLS_STORE"):
            context(**{"ssl.truststore.location": str(path), "ssl.truststore.password": "any"})
