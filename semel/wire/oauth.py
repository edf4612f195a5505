"""Tokens for OAUTHBEARER: from a token endpoint by client credentials (KIP-768, RFC 6749 section 4.4), from a Python
function, or from AWS.

All connections of the process share one token. It is kept for most of its life, and to its end if no new one can be
had. No error of this module holds a secret or a token.
"""

from __future__ import annotations

import base64
import http.client
import importlib
import math
import os
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

from semel.errors import ConfigError, Retriable, SemelError
from semel.security import Sasl
from semel.strict_json import read_object
from semel.wire.aws_login import aws_token

__all__ = ["read_answer", "rejected", "token"]

#: The part of its life for which a token is used; the rest allows for clock differences and slow connections.
_USED: Final = 0.8
#: Answers of an endpoint that another try may change.
_PASSING: Final = frozenset({408, 425, 429})
#: Bytes of an answer that are read: tokens have some thousands.
_LONGEST: Final = 1 << 20


@dataclass(slots=True)
class _Kept:
    """A token, its times of renewal and end by this process's clock, and the number of logins with it."""

    text: str
    renew_at: float
    ends_at: float
    logins: int = 0


_kept: dict[Sasl, _Kept] = {}
_locks: defaultdict[Sasl, threading.Lock] = defaultdict(threading.Lock)


def _forked() -> None:
    _locks.clear()  # a thread of the parent may hold one


os.register_at_fork(after_in_child=_forked)


def token(sasl: Sasl) -> str:
    """Return a token that is valid now.

    Raise :class:`ConfigError` if none is given, :class:`Retriable` if the endpoint could not be asked.
    """
    with _locks[sasl]:
        now, kept = time.monotonic(), _kept.get(sasl)
        if kept is None or now >= kept.renew_at:
            try:
                text, life = _fetched(sasl)
                kept = _kept[sasl] = _Kept(text, now + life * _USED, now + life)
            except Retriable:
                if kept is None or now >= kept.ends_at:
                    raise
        kept.logins += 1
        return kept.text


def _fetched(sasl: Sasl) -> tuple[str, float]:
    """Return a new token, and its lifetime in seconds."""
    if sasl.aws is not None:
        return aws_token(sasl.aws)
    return _provided(sasl) if sasl.token_provider is not None else _asked(sasl)


def rejected(sasl: Sasl, text: str) -> bool:
    """Forget a token that a broker did not take. Return True if it had served before: then another one is worth a
    try.
    """
    with _locks[sasl]:
        kept = _kept.get(sasl)
        if kept is None or kept.text != text:
            return True  # another thread has fetched a newer one in the meantime
        del _kept[sasl]
        return kept.logins > 1


def _provided(sasl: Sasl) -> tuple[str, float]:
    provider = sasl.token_provider
    try:
        if isinstance(provider, str):
            module, _, name = provider.partition(":")
            provider = getattr(importlib.import_module(module), name)
        bearer_token: Any = provider()  # type: ignore[misc]  # an object that is no function is refused below
        text, life = (
            (bearer_token, 0.0)
            if isinstance(bearer_token, str)
            else (bearer_token[0], float(bearer_token[1]) - time.time())
        )
    except SemelError:
        raise
    except OSError as error:
        raise Retriable(
            f"sasl.oauthbearer.token.provider could not get a token ({type(error).__name__}).", tag="CONNECTION"
        ) from None
    except Exception as error:
        raise ConfigError(
            f"sasl.oauthbearer.token.provider gave no token ({type(error).__name__}). Nothing was sent on this"
            " connection. It must be a function that every machine that connects can import, and give a text, or a"
            " text and the time until which it holds.",
            tag="SASL_LOGIN",
        ) from None
    return _checked(text, "sasl.oauthbearer.token.provider"), life


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the secret is for the given address alone."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, which urllib turns into an error."""
        return


def _asked(sasl: Sasl) -> tuple[str, float]:
    where = sasl.token_endpoint.partition("?")[0]
    form = {"grant_type": "client_credentials"} | ({"scope": sasl.scope} if sasl.scope else {})
    credentials = ":".join(map(urllib.parse.quote_plus, (sasl.username, sasl.password)))
    headers = {
        "Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}",
        "Accept": "application/json",
    }
    request = urllib.request.Request(sasl.token_endpoint, urllib.parse.urlencode(form).encode(), headers)
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(request, timeout=sasl.connect_timeout_ms / 1000) as answer:
            return read_answer(answer.read(_LONGEST), where)
    except urllib.error.HTTPError as error:
        raise _refusal(sasl, where, error.code) from None
    except (OSError, http.client.HTTPException) as error:
        raise _unreached(where, getattr(error, "reason", error)) from None


def read_answer(data: bytes, where: str) -> tuple[str, float]:
    """Return the token of an endpoint's answer and its lifetime in seconds; 0 if the answer does not say.

    Raise :class:`ConfigError` if it holds no token.
    """
    try:
        body = read_object(data)
        life = float(body.get("expires_in") or 0)
        if not 0 <= life < math.inf:
            raise ValueError(life)
        return _checked(body["access_token"], where), life
    except (ValueError, KeyError, TypeError, OverflowError):
        raise ConfigError(
            f"what {where} answered is no token: JSON with access_token and expires_in. Nothing was sent on this"
            " connection. Correct the address.",
            tag="SASL_LOGIN",
        ) from None


def _refusal(sasl: Sasl, where: str, status: int) -> SemelError:
    if status >= 500 or status in _PASSING:
        return Retriable(f"the token endpoint {where} answered {status}.", tag="CONNECTION")
    return ConfigError(
        f"the token endpoint {where} gave no token to {sasl.username}: it answered {status}. Nothing was sent on this"
        " connection. Correct clientId, clientSecret and scope; an address that sends one elsewhere is not followed.",
        tag="AUTHENTICATION",
    )


def _unreached(where: str, reason: object) -> SemelError:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return ConfigError(
            f"the certificate of the token endpoint {where} is not believed: {reason.verify_message}. Nothing was"
            " sent. Of token endpoints, those are believed that the system believes (SSL_CERT_FILE).",
            tag="TLS",
        )
    return Retriable(f"the token endpoint {where} could not be asked: {type(reason).__name__}.", tag="CONNECTION")


def _checked(text: object, where: str) -> str:
    if not isinstance(text, str) or not text or "\x01" in text:
        raise ConfigError(
            f"{where} gave no token. Nothing was sent on this connection. It must give a text, as access_token.",
            tag="SASL_LOGIN",
        )
    return text
