"""Config providers (KIP-297): values of the file that stand for others, which lie in files, directories or the
environment.

``config.providers = file`` with ``config.providers.file.class`` names one, and ``${file:/run/b.properties:key}`` asks
it. The three that Kafka brings are known: ``FileConfigProvider``, ``DirectoryConfigProvider`` and
``EnvVarConfigProvider``, with their parameters ``allowed.paths`` and ``allowlist.pattern``. A value that is found is
not looked at again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import javaproperties

from semel.errors import ConfigError

__all__ = ["resolve"]

_PREFIX = "config.providers"
_JAVA = "org.apache.kafka.common.config.provider."
_ASKED = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_Provider = Callable[[str, str], str]


def resolve(given: Mapping[str, str]) -> dict[str, str]:
    """The properties with each ``${provider:path:key}`` in its place looked up, and without the keys of providers.

    Raises :class:`ConfigError` for a provider that is not known, and for what it does not have. Values are never in a
    message: they may be passwords.
    """
    providers = _providers(given)
    found = {key: value for key, value in given.items() if not re.fullmatch(rf"{re.escape(_PREFIX)}(\..+)?", key)}
    return {key: _ASKED.sub(partial(_look_up, key, providers), value) for key, value in found.items()}


def _providers(given: Mapping[str, str]) -> dict[str, _Provider]:
    names = [name.strip() for name in given.get(_PREFIX, "").split(",") if name.strip()]
    return {name: _provider(name, given) for name in names}


def _provider(name: str, given: Mapping[str, str]) -> _Provider:
    key = f"{_PREFIX}.{name}.class"
    kind = given.get(key, "").strip()
    params = {
        param.removeprefix(f"{_PREFIX}.{name}.param."): value.strip()
        for param, value in given.items()
        if param.startswith(f"{_PREFIX}.{name}.param.")
    }
    known = {
        "FileConfigProvider": _in_files(params),
        "DirectoryConfigProvider": _in_directories(params),
        "EnvVarConfigProvider": _in_environment(params),
    }
    found = known.get(kind.removeprefix(_JAVA))
    if found is None:
        raise ConfigError(
            f"{key}={kind:.200} is a class of Java's, which does not run here. Nothing was copied. Use one of"
            f" {', '.join(_JAVA + each for each in known)}.",
            tag="CONFIG_PROVIDER",
        )
    return found


def _look_up(key: str, providers: Mapping[str, _Provider], match: re.Match[str]) -> str:
    name, path, asked = match.group(1), match.group(2) or "", match.group(3)
    provider = providers.get(name)
    if provider is None:  # as Kafka does: the text stays
        return match.group(0)
    try:
        return provider(path, asked)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(
            f"{key} asks for {match.group(0):.200}, and config provider {name} does not have it:"
            f" {type(error).__name__}. Nothing was copied. Correct the path and the name.",
            tag="CONFIG_PROVIDER",
        ) from None


def _in_files(params: Mapping[str, str]) -> _Provider:
    def get(path: str, key: str) -> str:
        return dict(javaproperties.loads(_allowed(params, path).read_text()))[key]

    return get


def _in_directories(params: Mapping[str, str]) -> _Provider:
    def get(path: str, key: str) -> str:
        if Path(key).name != key:
            raise ValueError("it leads out of the directory")
        return (_allowed(params, path) / key).read_text()

    return get


def _in_environment(params: Mapping[str, str]) -> _Provider:
    pattern = re.compile(params.get("allowlist.pattern") or ".*")

    def get(_: str, key: str) -> str:
        if not pattern.fullmatch(key):
            raise KeyError(key)
        return os.environ[key]

    return get


def _allowed(params: Mapping[str, str], path: str) -> Path:
    """The path, where ``allowed.paths`` (all without it) let it be read."""
    found = Path(path)
    allowed = [Path(each.strip()) for each in params.get("allowed.paths", "").split(",") if each.strip()]
    if allowed and not any(found.resolve().is_relative_to(each.resolve()) for each in allowed):
        raise ValueError("it is outside of allowed.paths")
    return found
