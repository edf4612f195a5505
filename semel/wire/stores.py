"""Java's stores of keys and certificates, as PEM: PKCS12 and JKS, by what a file begins with, as Java reads them.

No error of this module holds a password or a key.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any, Final

from semel.errors import ConfigError
from semel.extras import needs_extras

__all__ = ["certificates", "identity", "is_store"]

_JKS: Final = b"\xfe\xed\xfe\xed"
#: A sequence in DER: what PKCS12 begins with, and no PEM.
_PKCS12: Final = b"\x30"


def is_store(data: bytes) -> bool:
    """Return whether a file is one of Java's stores, and not PEM."""
    return data.startswith((_JKS, _PKCS12))


def certificates(data: bytes, where: str, password: str | None) -> str:
    """Return the certificates that a trust store believes, as PEM.

    Raise :class:`ConfigError` if the store cannot be read, or has none.
    """
    try:
        certs = _trusted_of_jks(data, password) if data.startswith(_JKS) else _pkcs12(data, password)[1]
    except ConfigError:
        raise
    except Exception as error:  # of many kinds, by what is wrong with the file
        raise _unreadable(where, "ssl.truststore.password", error) from None
    return _pem(certs, where)


def identity(data: bytes, where: str, password: str | None, key_password: str | None, secret: str) -> str:
    """Return the private key of a store and its certificates, as PEM. The key is encrypted with ``secret``.

    Of several keys it is the first by its alias. Raise :class:`ConfigError` if the store cannot be read, or has none.
    """
    with needs_extras("a store of Java's", "stores", "Nothing was sent."):
        from cryptography.hazmat.primitives import serialization as form
    try:
        if data.startswith(_JKS):
            key, certs = _key_of_jks(data, password, key_password)
        else:
            key, certs = _pkcs12(data, password)
    except ConfigError:
        raise
    except Exception as error:  # of many kinds, by what is wrong with the file
        raise _unreadable(where, "ssl.keystore.password and ssl.key.password", error) from None
    if key is None:
        raise _empty(where, "private key")
    private = form.load_der_private_key(key, None)
    encrypted = private.private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(secret.encode())
    )
    return encrypted.decode() + _pem(certs, where)


# ---- PKCS12


def _pkcs12(data: bytes, password: str | None) -> tuple[bytes | None, list[bytes]]:
    """Return the key, and the certificates, that of the key first; in DER."""
    with needs_extras("a PKCS12 store", "stores", "Nothing was sent."):
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.serialization import pkcs12
    store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    certs = [store.cert, *store.additional_certs] if store.cert is not None else store.additional_certs
    key = None
    if store.key is not None:
        key = store.key.private_bytes(form.Encoding.DER, form.PrivateFormat.PKCS8, form.NoEncryption())
    return key, [one.certificate.public_bytes(form.Encoding.DER) for one in certs]


# ---- JKS


def _jks(data: bytes, password: str | None) -> Any:
    with needs_extras("a JKS store", "stores", "Nothing was sent."):
        import jks
    return jks.KeyStore.loads(data, password or "", try_decrypt_keys=False)


def _trusted_of_jks(data: bytes, password: str | None) -> list[bytes]:
    return [entry.cert for _, entry in sorted(_jks(data, password).certs.items())]


def _key_of_jks(data: bytes, password: str | None, key_password: str | None) -> tuple[bytes | None, list[bytes]]:
    keys = _jks(data, password).private_keys
    if not keys:
        return None, []
    _, entry = min(keys.items())
    entry.decrypt(password if key_password is None else key_password)
    return bytes(entry.pkey_pkcs8), [cert for _, cert in entry.cert_chain]


# ---- both


def _pem(certs: Iterable[bytes], where: str) -> str:
    text = "".join(map(ssl.DER_cert_to_PEM_cert, certs))
    if not text:
        raise _empty(where, "certificate")
    return text


def _empty(where: str, what: str) -> ConfigError:
    return ConfigError(
        f"the store {where} has no {what}. Nothing was sent. Give the store that has it.", tag="TLS_STORE"
    )


def _unreadable(where: str, passwords: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"the store {where} cannot be read ({type(error).__name__}). Nothing was sent. Correct {passwords}, or give the"
        " store as PKCS12 or PEM.",
        tag="TLS_STORE",
    )
