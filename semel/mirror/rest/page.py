"""The page for browsers: what ``/`` answers to clients that ask for HTML. It uses nothing but REST."""

from __future__ import annotations

from pathlib import Path

from semel.web.page import Page, files_route

__all__ = ["PAGE", "ROUTES"]

_FOLDER = Path(__file__).parents[1] / "page"

PAGE = Page("Mirror", (_FOLDER / "body.html").read_text(), "page.js")
ROUTES = [files_route("semel.mirror", "page")]
