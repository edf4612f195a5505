"""JSON, what an error answers (``{"error_code", "message"}``, as Kafka Connect does), and the longest body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

__all__ = ["failed", "json_answer", "read_body"]

_LONGEST_BODY = 16 << 20


def failed(status: int, message: str) -> Response:
    """Return the answer for an error."""
    return json_answer(status, {"error_code": status, "message": message})


def json_answer(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer in JSON."""
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return Response(text.encode(errors="replace"), status, dict(headers or {}), "application/json")


async def read_body(request: Request) -> bytes | None:
    """Return the body of a request; None for one that is too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LONGEST_BODY:
            return None
    return body
