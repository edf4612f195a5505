"""The addresses of REST, their TLS, and who may ask: settings of a worker or a mirror."""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import javaproperties

from semel.errors import ConfigError
from semel.jaas import option_of_entry
from semel.security import SECURITY, Tls, read_tls
from semel.settings import NOTHING, Setting, not_yet, read_settings
from semel.web.basic_header import basic_header
from semel.web.listener import Listener, http_address

__all__ = ["HTTPS", "REST_SETTINGS", "RestConfig"]

#: What begins the settings of https alone. If one of them is given, ``ssl.…`` of the worker does not count.
HTTPS = "listeners.https."
_EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
_MODULE = "PropertyFileLoginModule"
_LISTENER = re.compile(r"(?P<scheme>[a-z]+)://(?P<host>\[[0-9a-fA-F:]+\]|[^:/\[\]]*)(:(?P<port>\d{1,5}))?/?")
_DEFAULT_LISTENER = "http://127.0.0.1:8083"
_CLIENT_AUTH = "ssl.client.auth"

#: Settings of the addresses, and of who may ask.
REST_SETTINGS = {
    "listeners": Setting(list, None),
    "rest.advertised.host.name": Setting(str, ""),
    "rest.advertised.port": Setting(int, None, 0, at_most=65_535),
    "rest.advertised.listener": Setting(str, "", one_of=("", "http", "https")),
    "rest.extension.classes": Setting(list, ()),
    "semel.rest.credentials.file": Setting(str, ""),
}


@dataclass(frozen=True, slots=True)
class RestConfig:
    """Where a worker listens, and whom it answers."""

    listeners: tuple[Listener, ...]
    #: ``host:port`` by which this worker is known: its worker_id.
    advertised: str
    scheme: str
    #: Of https. The keystore is the worker's own, and the truststore says which other workers are believed.
    tls: Tls | None = None
    #: Whether clients of https show a certificate: none, requested or required.
    client_auth: str = "none"
    #: Passwords by user; None where all may ask.
    credentials: Mapping[str, str] | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, own: Mapping[str, str], given: Mapping[str, str], *, by_default: bool) -> RestConfig:
        """Read ``own`` settings, and those of TLS among the worker's. ``by_default`` it listens on port 8083.

        Raises :class:`ConfigError` for what is wrong, and :class:`Unsupported` for other extensions.
        """
        values = read_settings(REST_SETTINGS, own)
        default = [_DEFAULT_LISTENER] if by_default else []
        listeners = tuple(map(_listener, default if values["listeners"] is None else values["listeners"]))
        tls, client_auth = None, "none"
        if any(one.tls for one in listeners):
            tls, client_auth = _tls(given)
        scheme = _scheme(values["rest.advertised.listener"], listeners)
        return cls(listeners, _advertised(values, scheme, listeners), scheme, tls, client_auth, _credentials(values))

    @property
    def address(self) -> str:
        """The address by which clients are led to this worker."""
        host, _, port = self.advertised.rpartition(":")
        return http_address(host, port, self.scheme)

    @property
    def own_login(self) -> dict[str, str]:
        """The header by which this worker asks another one of its group: they share their users."""
        return {"Authorization": basic_header(*next(iter(self.credentials.items())))} if self.credentials else {}


def _listener(text: str) -> Listener:
    found = _LISTENER.fullmatch(text)
    port = int(found["port"] or 8083) if found is not None else 0
    if found is None or found["scheme"] not in ("http", "https") or port > 65_535:
        raise ConfigError(
            f"listeners={text:.100} is not an address. {NOTHING} Write it as http://127.0.0.1:8083.", tag="WRONG_VALUE"
        )
    return Listener(found["host"].strip("[]"), port, tls=found["scheme"] == "https")


def _tls(given: Mapping[str, str]) -> tuple[Tls, str]:
    """Return the TLS of https, and whether clients must show a certificate."""
    own = {name.removeprefix(HTTPS): value for name, value in given.items() if name.startswith(HTTPS)}
    chosen = own or {name: value for name, value in given.items() if name.startswith("ssl.")}
    unknown = sorted(own.keys() - SECURITY - {_CLIENT_AUTH})
    if unknown:
        raise not_yet(f"{HTTPS}{unknown[0]:.200}", "Remove it.")
    tls = read_tls({name: value for name, value in chosen.items() if name in SECURITY})
    if tls.keystore_location is None and tls.keystore_key is None:
        raise ConfigError(
            f"listeners has https, and there is no certificate for it. {NOTHING} Give {HTTPS}ssl.keystore.location,"
            " a file with the private key and the certificates.",
            tag="MISSING_OPTION",
        )
    auth = read_settings(
        {_CLIENT_AUTH: Setting(str, "none", one_of=("none", "requested", "required"))}, chosen, prefix=""
    )
    return tls, auth[_CLIENT_AUTH]


def _scheme(asked: str, listeners: Sequence[Listener]) -> str:
    """Return the scheme by which other workers ask: http where there is a listener for it, as in Kafka."""
    there = ["https" if one.tls else "http" for one in listeners]
    if asked and there and asked.lower() not in there:
        raise ConfigError(
            f"rest.advertised.listener={asked} has no listener. {NOTHING} Add one to listeners, or remove it.",
            tag="WRONG_VALUE",
        )
    return asked.lower() or ("https" if there and "http" not in there else "http")


def _advertised(values: Mapping[str, Any], scheme: str, listeners: Sequence[Listener]) -> str:
    of_scheme = [one for one in listeners if one.tls == (scheme == "https")]
    first = of_scheme[0] if of_scheme else Listener("127.0.0.1", 8083)
    everywhere = first.host in ("", "0.0.0.0", "::")
    host = values["rest.advertised.host.name"] or (socket.gethostname() if everywhere else first.host)
    port = values["rest.advertised.port"]
    return f"{host}:{first.port if port is None else port}"


# ---- who may ask


def _credentials(values: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the passwords by user; None without a login."""
    extensions, file = values["rest.extension.classes"], values["semel.rest.credentials.file"]
    others = [one for one in extensions if one not in (_EXTENSION, _EXTENSION.rpartition(".")[2])]
    if others:
        raise not_yet(f"rest.extension.classes={others[0]:.200}", f"It is a Java class. Only {_EXTENSION} is there.")
    if not extensions and not file:
        return None
    return _read(file or _file_of_jaas())


def _file_of_jaas() -> str:
    """Return the file of users that a worker of Kafka's finds by a variable of the environment."""
    option = "-Djava.security.auth.login.config="
    words = shlex.split(os.environ.get("KAFKA_OPTS", ""))
    path = next((word.removeprefix(option) for word in words if word.startswith(option)), "")
    if not path:
        raise ConfigError(
            f"rest.extension.classes asks for logins, and no file has them. {NOTHING} Give"
            " semel.rest.credentials.file, with a line user=password for each user.",
            tag="REST_LOGIN",
        )
    file = option_of_entry(_text(path), "KafkaConnect", _MODULE, "file")
    if not file:
        raise ConfigError(
            f'{path:.200} has no file of logins. {NOTHING} Give KafkaConnect {{ {_MODULE} required file="..."; }};',
            tag="REST_LOGIN",
        )
    return file


def _read(path: str) -> dict[str, str]:
    made = {name: value for name, value in javaproperties.loads(_text(path)).items() if name and value}
    if not made:
        raise ConfigError(
            f"the file of logins {path:.200} has no user. {NOTHING} Write a line user=password for each user.",
            tag="REST_LOGIN",
        )
    return made


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigError(
            f"the file of logins {path:.200} cannot be read: {why}. {NOTHING} Correct its name or its rights.",
            tag="REST_LOGIN",
        ) from None
