"""Kafka's config providers: ``${provider:path:key}`` in a value stands for what a file, a directory or a variable says.

``config.providers`` names them, ``config.providers.<name>.class`` is one of Kafka's three, by its Java name or short,
or a :class:`ConfigProvider` of the user's own. ``param.allowed.paths`` and ``param.allowlist.pattern`` bound what
Kafka's give. A variable of a provider that is not named stays as it is, as in Kafka; one that a provider does not find
is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import javaproperties

from semel.errors import ConfigError, SemelError
from semel.settings.own_classes import JAVA, own_class
from semel.settings.reader import NOTHING
from semel.settings.table import split_list

__all__ = ["ConfigProvider", "Providers", "resolve"]

#: How properties of providers begin.
_PROVIDERS, _PARAMETER = "config.providers", "param."
_VARIABLE = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}:]*)\}")
_PACKAGE = "org.apache.kafka.common.config.provider."
_Find = Callable[[str, str], str | None]


class ConfigProvider:
    """Provider of values by a class of one's own. It is made on the driver, and in the process of each task.

    ``parameters`` are what ``config.providers.<name>.param.`` begins, without that. An error that it raises is refused,
    and its text is not shown: it may hold a secret.
    """

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self.parameters = parameters

    def get(self, path: str, key: str) -> str | None:
        """Return what ``${provider:path:key}`` stands for, or None if it is not found."""
        raise NotImplementedError(f"{type(self).__name__} has no method get")


class Providers:
    """The providers of one file of properties. Reading them opens no file."""

    def __init__(self, named: Mapping[str, _Find]) -> None:
        self._named = named

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> Providers:
        """Take what begins with ``config.providers``. Raises :class:`ConfigError` for an unknown class or parameter."""
        named = {}
        for name in split_list(properties.get(_PROVIDERS, "")):
            prefix = f"{_PROVIDERS}.{name}."
            parameters = {
                key.removeprefix(prefix): value for key, value in properties.items() if key.startswith(prefix)
            }
            kind = parameters.pop("class", "").strip().removeprefix(_PACKAGE)
            if kind not in _KINDS:
                named[name] = _own(prefix, kind, parameters)
                continue
            make, allowed = _KINDS[kind]
            unknown = sorted(parameters.keys() - {allowed})
            if unknown:
                raise ConfigError(
                    f"{prefix}{unknown[0]:.200} is not a known property. {NOTHING} {kind} takes {allowed}.",
                    tag="CONFIG_PROVIDER",
                )
            named[name] = make(parameters.get(allowed, ""))
        return cls(named)

    def resolve(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties with all variables replaced. Raise :class:`ConfigError` for one that is not found."""
        return {name: self._resolved(name, value) for name, value in properties.items()}

    def _resolved(self, name: str, value: str) -> str:
        def replacement(match: re.Match[str]) -> str:
            provider, path, key = match[1], match[2] or "", match[3]
            if provider not in self._named:
                return match[0]
            text = self._named[provider](path, key)
            if text is None:
                raise ConfigError(
                    f"{name:.200}: {match[0]:.300} is not found, or not allowed. {NOTHING} Correct the variable, or"
                    " what it names.",
                    tag="CONFIG_PROVIDER",
                )
            return text

        return _VARIABLE.sub(replacement, value) if "${" in value else value


def resolve(properties: Mapping[str, str]) -> tuple[Providers, dict[str, str]]:
    """Return the providers of a file, and its other properties with all variables replaced.

    Raises what :meth:`Providers.parse` and :meth:`Providers.resolve` raise. No value is in a message: it may be a
    password.
    """
    said = {name: value for name, value in properties.items() if name.partition(".providers")[0] == "config"}
    providers = Providers.parse(said)
    return providers, providers.resolve({name: value for name, value in properties.items() if name not in said})


def _own(prefix: str, kind: str, parameters: Mapping[str, str]) -> _Find:
    """Return what asks a class of the user's own, by its Python name or entry point."""
    made = None if not kind or kind.startswith(JAVA) else own_class(kind, ConfigProvider, "config_providers")
    if made is None:
        raise ConfigError(
            f"{prefix}class={kind:.200} is not a known provider. {NOTHING} Use FileConfigProvider,"
            " DirectoryConfigProvider, EnvVarConfigProvider, or a semel.connect.ConfigProvider of your own.",
            tag="CONFIG_PROVIDER",
        )
    other = next((one for one in sorted(parameters) if not one.startswith(_PARAMETER)), None)
    if other is not None:
        raise ConfigError(
            f"{prefix}{other:.200} is not a known property. {NOTHING} {made.__name__} takes {_PARAMETER}….",
            tag="CONFIG_PROVIDER",
        )
    given = {key.removeprefix(_PARAMETER): value for key, value in parameters.items()}
    provider = _asked(f"{prefix}class", lambda: made(given))

    def find(path: str, key: str) -> str | None:
        found = _asked(f"${{…:{path:.200}:{key:.200}}}", lambda: provider.get(path, key))
        return found if isinstance(found, str) else None

    return find


def _asked(what: str, ask: Callable[[], Any]) -> Any:
    """Run the user's code. The text of its error is not shown, nor kept as a cause."""
    try:
        return ask()
    except SemelError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{what}: the provider raised {type(error).__name__}. {NOTHING} Correct it, or what it needs.",
            tag="CONFIG_PROVIDER",
        ) from None


def _file(allowed: str) -> _Find:
    def find(path: str, key: str) -> str | None:
        if not _is_allowed(path, allowed):
            return None
        try:
            return javaproperties.loads(Path(path).read_bytes().decode()).get(key)
        except (OSError, ValueError):
            return None

    return find


def _directory(allowed: str) -> _Find:
    def find(path: str, key: str) -> str | None:
        if not _is_allowed(path, allowed) or "/" in key or key in ("", ".", ".."):
            return None
        try:
            return (Path(path) / key).read_bytes().decode()
        except (OSError, ValueError):
            return None

    return find


def _environment(pattern: str) -> _Find:
    allowed = re.compile(pattern or ".*", re.DOTALL)
    return lambda path, key: os.environ.get(key) if not path and allowed.fullmatch(key) else None


def _is_allowed(path: str, allowed: str) -> bool:
    """Return whether a path, with links followed, is in an allowed folder. Without allowed folders all paths are."""
    folders = [Path(one).resolve() for one in split_list(allowed)]
    return not folders or any(Path(path).resolve().is_relative_to(folder) for folder in folders)


_KINDS: dict[str, tuple[Callable[[str], _Find], str]] = {
    "FileConfigProvider": (_file, "param.allowed.paths"),
    "DirectoryConfigProvider": (_directory, "param.allowed.paths"),
    "EnvVarConfigProvider": (_environment, "param.allowlist.pattern"),
}
