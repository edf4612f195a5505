"""Requests that a worker hands on to the leader of its group, as Kafka Connect does: in two hops at most.

The first hop says ``forward=true``, the second ``forward=false``. A worker that gets the second one and does not lead
answers 409. Otherwise the client gets the leader's answer as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from semel.security import Tls
from semel.wire.security import tls_context

__all__ = ["Forwarded", "ask_leader"]

#: As long as Kafka Connect waits.
_PATIENCE_S = 90.0
#: What of a request goes on, and of an answer goes back.
_REQUEST_HEADERS = ("authorization", "content-type", "x-connect-authorization", "x-connect-request-signature-algorithm")
_ANSWER_HEADERS = ("content-type", "location")
_NEXT = {None: "true", "true": "false"}


@dataclass(frozen=True, slots=True)
class Forwarded:
    """The leader's answer. Status 409 without a body means that no leader could be asked; ``problem`` says why."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] | None = None
    problem: str = ""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def ask_leader(
    url: str,
    method: str,
    path: str,
    query: Mapping[str, list[str]],
    headers: Mapping[str, str],
    body: bytes,
    tls: Tls | None = None,
) -> Forwarded:
    """Ask the leader at ``url``. ``path`` is quoted already, and ``tls`` says whom to believe."""
    hop = query.get("forward", [None])[-1]
    if hop not in _NEXT:
        text = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
        return Forwarded(409, problem=f"{text}. Ask again.")
    if not url:
        text = "Cannot complete request momentarily due to no known leader URL"
        return Forwarded(
            409, problem=f"{text}, likely because a rebalance was underway, or the leader has no listener."
        )
    asked = urlencode({**query, "forward": _NEXT[hop]}, doseq=True)
    kept = {name: value for name, value in headers.items() if name.lower() in _REQUEST_HEADERS}
    data = body if method in ("POST", "PUT", "PATCH") else None
    request = Request(f"{url}{path}?{asked}", data, {"Content-Type": "application/json", **kept}, method=method)
    try:
        secured = [] if tls is None else [HTTPSHandler(context=tls_context(tls))]
        opener = build_opener(_NoRedirects, ProxyHandler({}), *secured)
        with opener.open(request, timeout=_PATIENCE_S) as answer:
            return Forwarded(answer.status, answer.read(), _back(dict(answer.headers)))
    except HTTPError as error:
        return Forwarded(error.code, error.read(), _back(dict(error.headers)))
    except (URLError, OSError, HTTPException) as error:
        return Forwarded(
            409, problem=f"The leader at {url} does not answer ({error}). Another one may lead soon. Ask again."
        )


def _back(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() in _ANSWER_HEADERS}
