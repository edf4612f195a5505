"""Connections to PostgreSQL, and what an error of one means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError, Retriable, SemelError
from semel.extras import needs_extras
from semel.settings import NOTHING

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGconn

__all__ = ["Address", "database_errors", "lost_database", "refused_by_database"]

#: How values become text, on each connection: one decoder reads rows of tables and of the log.
_FORMS = {
    "DateStyle": "ISO",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "client_encoding": "UTF8",
    "lc_monetary": "C",
    "idle_in_transaction_session_timeout": "0",
    "statement_timeout": "0",
    "row_security": "off",  # a policy would hide rows silently: PostgreSQL refuses to read then
}
_CONNECT_S = 30
_TLS = {
    "database.sslmode": "sslmode",
    "database.sslcert": "sslcert",
    "database.sslkey": "sslkey",
    "database.sslrootcert": "sslrootcert",
    "database.sslpassword": "sslpassword",
}


@dataclass(frozen=True, slots=True)
class Address:
    """A server, a database and a login."""

    parameters: Mapping[str, str]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Address:
        """Return the address of a configuration."""
        made = {
            "host": config["database.hostname"],
            "port": str(config["database.port"]),
            "user": config["database.user"],
            "password": config["database.password"],
            "dbname": config["database.dbname"],
            "keepalives": "1" if config["database.tcpKeepAlive"] else "0",
            "connect_timeout": str(_CONNECT_S),
            "application_name": "semel",
            "options": " ".join(f"-c {name}={value}" for name, value in _FORMS.items()),
        }
        made |= {theirs: config[ours] for ours, theirs in _TLS.items() if config[ours]}
        return cls({name: value for name, value in made.items() if value != ""})

    def open(self) -> Connection[Any]:
        """Connect, for SQL. Each statement is a transaction of its own unless one is begun."""
        with needs_extras("PostgresCdcSource", "database", NOTHING):
            import psycopg
            from psycopg.conninfo import make_conninfo
        try:
            return psycopg.connect(make_conninfo(**self.parameters), autocommit=True)
        except psycopg.OperationalError as error:
            raise unreachable(error) from error

    def replication(self) -> PGconn:
        """Connect, for the log."""
        from psycopg import OperationalError, pq
        from psycopg.conninfo import make_conninfo

        made = pq.PGconn.connect(make_conninfo(**self.parameters, replication="database").encode())
        if made.status != pq.ConnStatus.OK:
            raise unreachable(OperationalError(made.error_message.decode()))
        made.nonblocking = 0
        return made


def unreachable(error: Exception) -> SemelError:
    """Return the error for a server that gives no connection."""
    text = _line(str(error))
    if any(word in text for word in ("password", "authentication", "pg_hba", "does not exist", "not permitted")):
        return ConfigError(
            f"PostgreSQL refuses the login: {text}. {NOTHING} Correct database.user, database.password or"
            " database.dbname.",
            tag="DATABASE",
        )
    return lost_database("the database", text)


def lost_database(what: str, text: str) -> SemelError:
    """Return the error for a connection that ended, or that the server ended."""
    return Retriable(
        f"{what} cannot be read: {_line(text)}. Nothing more was read. The task starts again from its committed"
        " offsets.",
        tag="DATABASE",
    )


@contextmanager
def database_errors(what: str) -> Iterator[None]:
    """Turn the driver's errors into semel's."""
    import psycopg

    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise lost_database(what, str(error)) from error
    except psycopg.Error as error:
        raise refused_by_database(
            f"{what} refused a statement", error, "Correct the connector's properties, or the login's rights."
        ) from error


def refused_by_database(what: str, error: Exception, remedy: str) -> ConfigError:
    """Return the error for a statement that the server refuses."""
    return ConfigError(f"{what}: {_line(str(error))}. {NOTHING} {remedy}", tag="DATABASE")


def _line(text: str) -> str:
    """Return a driver's first words, without the point at their end."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[0].removeprefix("ERROR:").strip().rstrip(".")[:200] if lines else "no answer"
