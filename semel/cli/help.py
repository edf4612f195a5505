"""The form of all help texts: Markdown, which wraps at any width, and examples to copy at the end."""

from __future__ import annotations

from typing import Any

import typer

__all__ = ["application", "examples"]


def application(**settings: Any) -> typer.Typer:
    """Return a typer application whose help texts are Markdown."""
    return typer.Typer(add_completion=False, rich_markup_mode="markdown", **settings)


def examples(*commands: str) -> str:
    """Return the end of a help text. A line has at most 74 characters; a longer command is joined by backslashes."""
    return "\n".join([f"Example{'s' if len(commands) > 1 else ''}:", "", "```text", *commands, "```"])
