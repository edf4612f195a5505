"""The version of a batch job: the same one again is skipped, and a lower one refused."""

from __future__ import annotations

import logging

from semel.errors import ConfigError

__all__ = ["is_due"]

log = logging.getLogger("semel.spark")


def is_due(version: int | None, done: int | None, prefix: str) -> bool:
    """Return whether a job of this version is to be written, when ``done`` is the one that is committed.

    Raises :class:`ConfigError` for an older version than that.
    """
    if version is None:
        log.warning("no version was given: if this job is run again, its rows are written again")
        return True
    if done is None or version > done:
        return True
    if version < done:
        raise ConfigError(
            f"version {version} of {prefix!r} is older than {done}, which is committed. Nothing was"
            " written. Give a higher version for new data.",
            tag="VERSION_TOO_LOW",
        )
    log.info("version %d of %r is committed already: skipped", version, prefix)
    return False
