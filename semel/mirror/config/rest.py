"""REST of the mirror's process: MirrorMaker 2's keys for it (KIP-710), and those of Connect's server below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from semel.mirror.config.keys import NOTHING
from semel.settings import Setting, read_settings
from semel.web.rest_config import HTTPS, REST_SETTINGS, RestConfig

__all__ = ["MirrorRest", "read_rest"]

_ENABLED, _ORIGINS = "dedicated.mode.enable.internal.rest", "access.control.allow.origin"
_SETTINGS = {_ENABLED: Setting(bool, False), _ORIGINS: Setting(list, ())}


@dataclass(frozen=True, slots=True)
class MirrorRest:
    """Where the process listens, whom it answers, and the other sites whose pages may ask."""

    server: RestConfig
    origins: Sequence[str]


def read_rest(plain: Mapping[str, str]) -> tuple[MirrorRest | None, set[str]]:
    """Return the settings of REST, and the keys that they are from. As in MirrorMaker 2, addresses alone open no
    port.

    Raises :class:`ConfigError` for what is wrong, and :class:`Unsupported` for other extensions.
    """
    values = read_settings(_SETTINGS, plain, NOTHING)
    if not values[_ENABLED]:
        return None, set()
    own = {name: value for name, value in plain.items() if name in REST_SETTINGS}
    used = {name for name in plain if name in own or name in _SETTINGS or name.startswith(HTTPS)}
    return MirrorRest(RestConfig.parse(own, plain, by_default=True), values[_ORIGINS]), used
