"""Tokens for OAUTHBEARER: from a token endpoint by client credentials (KIP-768, RFC 6749 section 4.4), or from a Python function.

A token is kept for most of its life, one for all connections of the process. No error made here holds a secret or a token.
"""

from __future__ import annotations

import base64
import importlib
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Final

from semel.errors import ConfigError, Retriable
from semel.security import Sasl

__all__ = ["token"]

#: Of its life, what a token is used for; the rest is for clocks that differ and connections that are slow.
_USED: Final = 0.8

_lock = threading.Lock()
#: Each token, and when by this process's clock to get another.
_kept: dict[Sasl, tuple[str, float]] = {}


def token(sasl: Sasl) -> str:
    """A token that holds now. Raises :class:`ConfigError` when none is given, :class:`Retriable` when nobody could be asked."""
    with _lock:
        known, until = _kept.get(sasl, ("", 0.0))
        if not known or time.monotonic() >= until:
            known, life = _provided(sasl) if sasl.token_provider is not None else _asked(sasl)
            _kept[sasl] = known, time.monotonic() + life * _USED
        return known


def _provided(sasl: Sasl) -> tuple[str, float]:
    provider = sasl.token_provider
    if isinstance(provider, str):
        module, _, name = provider.partition(":")
        try:
            provider = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"sasl.oauthbearer.token.provider={sasl.token_provider} cannot be imported: {error}. Nothing was sent. It must be there on every"
                " machine that connects, executors among them.",
                tag="SASL_LOGIN",
            ) from None
    assert callable(provider)
    given = provider()
    text, life = (given, 0.0) if isinstance(given, str) else (given[0], given[1] - time.time())
    return _checked(text, "sasl.oauthbearer.token.provider"), life


def _asked(sasl: Sasl) -> tuple[str, float]:
    where = urllib.parse.urlsplit(sasl.token_endpoint)._replace(query="", fragment="").geturl()
    form = {"grant_type": "client_credentials"} | ({"scope": sasl.scope} if sasl.scope else {})
    credentials = ":".join(map(urllib.parse.quote_plus, (sasl.username, sasl.password)))
    headers = {"Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}", "Accept": "application/json"}
    request = urllib.request.Request(sasl.token_endpoint, urllib.parse.urlencode(form).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=sasl.connect_timeout_ms / 1000) as answer:
            body = json.loads(answer.read())
    except urllib.error.HTTPError as error:
        if error.code >= 500:
            raise Retriable(f"the token endpoint {where} answered {error.code}.", tag="CONNECTION") from None
        raise ConfigError(
            f"the token endpoint {where} gave no token to {sasl.username}: it answered {error.code}. Nothing was read or written. Correct clientId,"
            " clientSecret and scope.",
            tag="AUTHENTICATION",
        ) from None
    except ValueError:
        raise ConfigError(f"what the token endpoint {where} answered is no JSON. Nothing was sent. Correct it.", tag="SASL_LOGIN") from None
    except OSError as error:
        raise Retriable(f"the token endpoint {where} could not be asked: {getattr(error, 'reason', error)}.", tag="CONNECTION") from None
    return _checked(body.get("access_token") if isinstance(body, dict) else None, where), float(body.get("expires_in") or 0)


def _checked(text: object, where: str) -> str:
    if not isinstance(text, str) or not text or "\x01" in text:
        raise ConfigError(f"{where} gave no token. Nothing was read or written. It must give a text, as access_token.", tag="SASL_LOGIN")
    return text
