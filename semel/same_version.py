"""One version of semel on both sides: who is given something by another process asks first who made it.

What is handed over serves one job and is used up within it, so no version has to understand another's; it has to notice
it, before it reads anything that only the other one knows. Not promised: that two builds with one version number are
distinguished.
"""

from __future__ import annotations

import socket

from semel._version import __version__
from semel.errors import ConfigError

__all__ = ["OTHER_VERSION", "check_same_version"]

#: The tag of the refusal.
OTHER_VERSION = "OTHER_VERSION"


def check_same_version(made_by: object, what: str) -> None:
    """Raise :class:`ConfigError`, naming both versions and this machine, unless this very version of semel made
    ``what``.
    """
    if made_by == __version__:
        return
    raise ConfigError(
        f"semel {made_by} made {what}, and this process on {socket.gethostname()} has semel {__version__}. It has"
        " read and written nothing. Install the same wheel of semel on the driver and on every executor (or wherever"
        " tickets are taken to), then start again.",
        tag=OTHER_VERSION,
    )
