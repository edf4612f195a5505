"""Settings of a connector that Kafka Connect has, and that change nothing here: checked, and named once in a warning.

A value that would change the result is refused at its setting.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from semel.connect.api import Setting
from semel.connect.config import converter_options
from semel.connect.plugins import check_header_converter, option_of, without_effect
from semel.errors import SemelError

__all__ = ["check_unused", "warn_of_unused"]

log = logging.getLogger("semel.connect")

_HEADERS = "header.converter"
_TIMEOUT, _DELAY = "errors.retry.timeout", "errors.retry.delay.max.ms"
_ENFORCE = "tasks.max.enforce"
_UNUSED = ("connector.plugin.version", _DELAY)


def check_unused(
    given: Mapping[str, str],
    convert: Callable[[str, str, Setting], Any],
    add: Callable[..., None],
    raised: Callable[[str, SemelError], None],
) -> None:
    """Check them. ``add`` and ``raised`` take a problem, each at its setting."""
    for name, kind in ((_DELAY, int), (_ENFORCE, bool), (_TIMEOUT, int)):
        value = convert(name, given[name], Setting(kind)) if name in given else 0
        if name == _TIMEOUT and value:
            text = f"{name}={value} is not there yet: a conversion that failed once fails again."
            add(name, text, tag="NOT_YET", remedy="Remove it, or give 0.", unsupported=True)
    options = converter_options(given, _HEADERS)
    try:
        check_header_converter(given.get(_HEADERS, "SimpleHeaderConverter"), options)
    except SemelError as error:
        raised(option_of(error, _HEADERS, options), error)


def warn_of_unused(name: str, given: Mapping[str, str]) -> None:
    """Name those that are given, once in a process."""
    unused = [setting for setting in given if setting in _UNUSED or f"{setting}.".startswith(f"{_HEADERS}.")]
    if given.get(_ENFORCE, "true").lower() == "false":
        unused.append(_ENFORCE)
    for setting in ("key.converter", "value.converter"):
        options = converter_options(given, setting)
        # without its class, a connector has the worker's converter with the worker's options
        found = without_effect(given[setting], options) if setting in given else options
        unused += [f"{setting}.{option}" for option in found]
    if unused:
        _warn_once(name, ", ".join(sorted(unused)))


@lru_cache(1024)
def _warn_once(name: str, unused: str) -> None:
    log.warning("these properties of connector %s change nothing here: %s", name, unused)
