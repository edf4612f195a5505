"""The catalog of Iceberg's tables, by pyiceberg's own settings, and its errors."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from semel.errors import ConfigError, SemelError
from semel.extras import needs_extras
from semel.settings import NOTHING

__all__ = ["CATALOG", "catalog_errors", "check_catalog", "load_catalog"]

#: The settings of the catalog have this prefix.
CATALOG = "iceberg.catalog."
_TYPES = ("sql", "rest")


def load_catalog(name: str, settings: Mapping[str, str]) -> Any:
    """Return the catalog. Raise :class:`ConfigError` for settings that it does not take, ``OSError`` if it is away."""
    check_catalog(settings)
    from pyiceberg.catalog import load_catalog as load

    with catalog_errors(f"catalog {name:.100}"):
        try:
            return load(name, **{**settings, "type": catalog_type(settings)})
        except (ValueError, TypeError) as error:
            raise _wrong(f"the catalog {name:.100} cannot be used: {error!s:.150}", "its settings") from None


def check_catalog(settings: Mapping[str, str]) -> None:
    """Refuse settings of a catalog that could not keep offsets. Nothing is opened.

    Raise :class:`ConfigError`, also where a package is missing.
    """
    with needs_extras("IcebergSink", "connect,iceberg", NOTHING):
        import pyiceberg
        import sqlalchemy
        import sqlalchemy.exc
    del pyiceberg
    kind, uri = catalog_type(settings), settings.get("uri", "")
    if kind not in _TYPES or "py-catalog-impl" in settings:
        named = settings.get("py-catalog-impl", kind)
        raise _wrong(f"{CATALOG}type={named:.100} was not tried: this sink needs sql or rest", f"{CATALOG}type")
    if not uri:
        raise _wrong(f"{CATALOG}uri is missing", f"{CATALOG}uri")
    warehouse = urlsplit(settings.get("warehouse", ""))
    if kind == "sql" and not warehouse.scheme and not PurePosixPath(warehouse.path).is_absolute():
        what = "is no whole path of a folder" if warehouse.path else "is missing"
        raise _wrong(f"{CATALOG}warehouse {what}", f"{CATALOG}warehouse")
    if kind == "sql":
        try:
            url = sqlalchemy.make_url(uri)
        except sqlalchemy.exc.ArgumentError:
            raise _wrong(f"{CATALOG}uri is no URL of SQLAlchemy", f"{CATALOG}uri") from None
        if url.get_backend_name() not in ("sqlite", "postgresql"):
            raise _wrong(f"{CATALOG}uri names no PostgreSQL or SQLite", f"{CATALOG}uri")
        if url.get_backend_name() == "sqlite" and not PurePosixPath(url.database or "").is_absolute():
            raise _wrong(f"{CATALOG}uri names no file by its whole path: sqlite:////folder/file.db", f"{CATALOG}uri")


def catalog_type(settings: Mapping[str, str]) -> str:
    """Return the type of a catalog, as pyiceberg finds it."""
    given = settings.get("type", "").lower()
    return given or ("rest" if settings.get("uri", "").startswith("http") else "sql")


def _wrong(what: str, name: str) -> ConfigError:
    return ConfigError(f"{what}. {NOTHING} Correct {name}.", tag="WRONG_VALUE")


@contextmanager
def catalog_errors(title: str) -> Iterator[None]:
    """Turn errors of the library into refusals, and into ``OSError`` where a second try may help.

    It is a ``ConnectionError`` where the catalog is away.
    """
    from pyiceberg import exceptions
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    try:
        yield
    except (OSError, SemelError):
        raise
    except exceptions.CommitFailedException as error:
        raise OSError(errno.EAGAIN, f"a commit to the {title} met another one") from error
    except (
        exceptions.ServiceUnavailableError,
        exceptions.ServerError,
        exceptions.TooManyRequestsError,
        exceptions.CommitStateUnknownException,
    ) as error:
        raise ConnectionError(errno.EIO, f"{type(error).__name__}: {error!s:.150}") from error
    except DBAPIError as error:  # its own text shows what was sent
        said = next(iter(str(error.orig or "").splitlines()), type(error).__name__)
        kind = ConnectionError if _passes(error) else OSError
        raise kind(errno.EIO, f"the database of the {title}: {said:.150}") from None
    except (
        exceptions.RESTError,
        exceptions.NoSuchNamespaceError,
        exceptions.TableAlreadyExistsError,
        exceptions.NotInstalledError,
        exceptions.SignError,
        SQLAlchemyError,
    ) as error:
        raise OSError(errno.EIO, f"the {title}: {type(error).__name__}: {error!s:.150}") from error
    except (exceptions.ValidationError, exceptions.ValidationException, ValueError) as error:
        raise ConfigError(
            f"the {title} cannot be used: {error!s:.200}. Nothing more was written. Correct the table, or the settings"
            " of its catalog.",
            tag="SINK_TABLE",
        ) from error


def _passes(error: Any) -> bool:
    """Return whether a database may answer later: a server that is away or restarts, or a file that is locked."""
    from sqlalchemy.exc import OperationalError

    said, state = str(error.orig or ""), str(getattr(error.orig, "sqlstate", None) or "")
    if type(error.orig).__module__.startswith("sqlite3"):
        return "locked" in said
    refused = state.startswith(("28", "3D")) or "authentication failed" in said or "does not exist" in said
    return bool(error.connection_invalidated or isinstance(error, OperationalError)) and not refused
