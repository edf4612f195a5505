"""Requests between workers are signed by the session key in the config topic (KIP-507).

The signature is the HMAC of the body's bytes, Base64. Every login that can read the config topic can sign.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Collection, Mapping

from semel.errors import ConfigError

__all__ = ["ALGORITHMS", "check_signature"]

_SIGNATURE, _ALGORITHM = "x-connect-authorization", "x-connect-request-signature-algorithm"
#: Java's names and Python's.
ALGORITHMS: Mapping[str, str] = {
    "HmacSHA1": "sha1",
    "HmacSHA224": "sha224",
    "HmacSHA256": "sha256",
    "HmacSHA384": "sha384",
    "HmacSHA512": "sha512",
}


def check_signature(headers: Mapping[str, str], body: bytes, key: str | None, allowed: Collection[str]) -> None:
    """Return if the request is signed by ``key`` (Base64; None before there is one) with an ``allowed`` algorithm.

    Raises :class:`ConfigError` tagged REQUEST, NO_SESSION_KEY or WRONG_SIGNATURE.
    """
    given, algorithm = headers.get(_SIGNATURE), headers.get(_ALGORITHM)
    if given is None or algorithm is None:
        raise ConfigError("Internal request missing required signature.", tag="REQUEST")
    if algorithm not in allowed:
        raise ConfigError(
            f"This worker does not support the '{algorithm:.100}' key signing algorithm used by other workers. This"
            f" worker is currently configured to use: {', '.join(allowed)}. Check"
            " inter.worker.verification.algorithms of all workers.",
            tag="REQUEST",
        )
    try:
        signature = base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError("The signature of the internal request is not Base64.", tag="REQUEST") from None
    if key is None:
        raise ConfigError("This worker has no session key yet. Ask again.", tag="NO_SESSION_KEY")
    wanted = hmac.digest(base64.b64decode(key), body, ALGORITHMS[algorithm])
    if not hmac.compare_digest(signature, wanted):
        raise ConfigError("Internal request contained invalid signature.", tag="WRONG_SIGNATURE")
