"""What MkDocs is told beyond ``mkdocs.yml``: pages that lie outside ``docs`` are pages of the site too.

``README.md`` is its first page, ``CONTRIBUTING.md`` and ``model/README.md`` are others, and the examples are files.
Links among all of these are written as GitHub follows them, and are turned here into those of the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "model/README.md": "model.md"}
_REPOSITORY = {page: path for path, page in PAGES.items()}
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and the examples that lie outside ``docs``."""
    for path, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text()))
    for example in sorted((ROOT / "examples").glob("*.py")):
        files.append(File.generated(config, f"examples/{example.name}", abs_src_path=str(example)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links of the repository into those of the site."""
    here = page.file.src_uri
    source = posixpath.dirname(_REPOSITORY.get(here, f"docs/{here}"))

    def site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(source, link[1]))
        return posixpath.relpath(PAGES.get(target, target.removeprefix("docs/")), posixpath.dirname(here) or ".")

    return _LINK.sub(site, markdown)
