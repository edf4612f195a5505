"""Stores of keys and certificates, made by Java's own keytool."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal

from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificates

from semel.sandbox.java import find_java

Kind = Literal["JKS", "PKCS12"]
STORE_PASSWORD = "of the store"
KEY_PASSWORD = "of the key"


def truststore(directory: Path, kind: Kind, *certificates: Path) -> Path:
    """Return a store that believes these certificates, which are PEM."""
    path = directory / f"trust.{kind.lower()}"
    for number, certificate in enumerate(certificates):
        _keytool("-importcert", "-noprompt", "-alias", f"ca{number}", "-file", certificate, *_into(path, kind))
    return path


def keystore(directory: Path, kind: Kind, pem: Path) -> Path:
    """Return a store with the private key and the certificates of a PEM file. In JKS the key has its own password."""
    key = form.load_pem_private_key(pem.read_bytes(), None)
    first, *others = load_pem_x509_certificates(pem.read_bytes())
    assert isinstance(key, EllipticCurvePrivateKey)
    plain, path = directory / "plain.p12", directory / f"key.{kind.lower()}"
    encrypted = form.BestAvailableEncryption(STORE_PASSWORD.encode())
    plain.write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, first, others, encrypted))
    source = ("-srckeystore", plain, "-srcstoretype", "PKCS12", "-srcstorepass", STORE_PASSWORD, "-alias", "me")
    into = ("-destkeystore", path, "-deststoretype", kind, "-deststorepass", STORE_PASSWORD)
    own = ("-destkeypass", KEY_PASSWORD) if kind == "JKS" else ()
    _keytool("-importkeystore", "-noprompt", *source, *into, *own)
    return path


def _into(path: Path, kind: Kind) -> tuple[str | Path, ...]:
    return "-keystore", path, "-storetype", kind, "-storepass", STORE_PASSWORD


def _keytool(*arguments: str | Path) -> None:
    program = Path(find_java()).resolve().parent / "keytool"
    subprocess.run([program, *arguments], check=True, capture_output=True, timeout=120)
