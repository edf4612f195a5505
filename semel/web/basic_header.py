"""The header of a login by user and password (RFC 7617)."""

from __future__ import annotations

import base64

__all__ = ["basic_header"]


def basic_header(user: str, password: str) -> str:
    """Return the value of ``Authorization`` for a user."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
