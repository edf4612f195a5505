"""The file that holds an application: read, and run for the one ``App`` at its top level.

Its text travels to executors, which run it as it was read here; what it imports must be there.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from semel.errors import ConfigError, SemelError
from semel.streams.app import App

__all__ = ["AppFile"]

#: The module that the file is, so that its classes can be found by name.
_MODULE = "semel_streams_app"


@dataclass(frozen=True)
class AppFile:
    """A Python file with one application. ``name`` is for tracebacks."""

    name: str
    text: str

    @classmethod
    def read(cls, file: Path) -> AppFile:
        """Read it, and let it import what lies beside it. Raises :class:`ConfigError` where it cannot be read."""
        try:
            found = cls(str(file), file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{file} cannot be read: {error}. Nothing was started. Name a Python file.") from error
        sys.path.insert(0, str(file.absolute().parent))
        return found

    def load(self) -> App:
        """Run it. Raises :class:`ConfigError` where that fails, or there is not just one application."""
        module = sys.modules[_MODULE] = ModuleType(_MODULE)
        module.__file__ = self.name
        try:
            exec(compile(self.text, self.name, "exec", dont_inherit=True), module.__dict__)
        except SemelError:
            raise
        except Exception as error:
            raise ConfigError(
                f"{self.name} could not be loaded: {type(error).__name__}: {error}. Nothing was started. Correct it;"
                " what it imports from beside it goes to executors by --py-files.",
                tag="APP_FILE",
            ) from error
        found = list({id(value): value for value in vars(module).values() if isinstance(value, App)}.values())
        if len(found) != 1:
            raise ConfigError(
                f"{self.name} has {len(found)} applications at its top level, and must have one. Nothing was started."
                ' Write app = App("my-app", ...), and let no other App stand beside it.',
                tag="APP_FILE",
            )
        return found[0]
