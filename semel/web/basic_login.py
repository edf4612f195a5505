"""A login by user and password, as browsers and ``curl --user`` know it (RFC 7617)."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from semel.web.answers import failed
from semel.web.basic_header import basic_header

__all__ = ["BasicLogin"]


class BasicLogin:
    """Lets those pass who name a user and the password of that user."""

    def __init__(self, passwords: Mapping[str, str], realm: str) -> None:
        self._passwords = {basic_header(user, password).encode() for user, password in passwords.items()}
        self._asks = {"WWW-Authenticate": f'Basic realm="{realm}", charset="UTF-8"'}

    async def __call__(self, request: Request) -> Response | None:
        """Return None for a request that may pass."""
        kind, _, encoded = request.headers.get("authorization", "").partition(" ")
        shown = f"Basic {encoded.strip()}".encode() if kind.lower() == "basic" else b""
        # each is compared, so that how long it takes says nothing of them
        known = [hmac.compare_digest(shown, one) for one in self._passwords]
        if any(known):
            return None
        refused = failed(401, "User cannot access the resource.")
        refused.headers.update(self._asks)
        return refused
