"""The layers between a TCP socket and Kafka's frames: TLS below them, and SASL as their first (KIP-368, KIP-255).

:func:`secure` is called once for each new connection, before the first frame, and returns the socket to use.
:func:`authenticate` logs in after the versions are known, and again before the login expires. The layers above do not
notice.

The mechanisms are kafka-python's. No error of this module holds a password, a key or a token.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import socket
import ssl
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from semel.config import ClientConfig
from semel.errors import ConfigError, Retriable, SemelError, Unsupported
from semel.security import Sasl, Tls
from semel.wire.oauth import rejected, token
from semel.wire.stores import certificates, identity, is_store

__all__ = ["authenticate", "refused", "secure", "send_some", "server_context", "tls_context"]

_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

#: Smaller pieces are joined before they are encrypted: a record of TLS holds 16 KiB, and each costs a call.
_JOINED: Final = 1 << 16
_UNSUPPORTED_MECHANISM: Final = 33
_MOST_ROUNDS: Final = 8
#: The iterations that a SCRAM broker asks for, and the least that RFC 7677 allows.
_ITERATIONS: Final = re.compile(rb"(?:^|,)i=(\d{1,9})(?:,|$)")
_FEWEST_ITERATIONS: Final = 4096
#: A broker's words, at any moment, for a client certificate that is missing or not trusted.
_OF_OUR_CERTIFICATE: Final = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "UNSUPPORTED_CERTIFICATE",
    "CERTIFICATE_REVOKED",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_UNKNOWN",
    "UNKNOWN_CA",
    "ACCESS_DENIED",
    "HANDSHAKE_FAIL",
)

#: ApiVersions in version 0, without a client id: length, API, version, correlation id, and an absent text.
_WHICH_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 4711, -1)

log = logging.getLogger("semel.wire")

#: A function that sends a message of kafka-python in a version, and returns its answer.
Call = Callable[[Any, int], Any]


# ---- TLS


def send_some(target: socket.socket, pieces: Sequence[memoryview]) -> int:
    """Send as many bytes as go out at once, at most all pieces. Return their number."""
    if not isinstance(target, ssl.SSLSocket):
        return target.sendmsg(pieces)
    joined: list[memoryview] = []
    size = 0
    for piece in pieces:
        if joined and size + len(piece) > _JOINED:
            break
        joined.append(piece)
        size += len(piece)
    return target.send(joined[0] if len(joined) == 1 else b"".join(joined))


def secure(raw: socket.socket, host: str, address: str, config: ClientConfig) -> socket.socket:
    """Return the socket for frames. Raise :class:`ConfigError` if the two sides do not trust each other."""
    tls = config.security.tls
    if tls is None:
        return raw
    raw_address = None
    try:
        raw_address = raw.getpeername()[:2]
        raw.settimeout(config.socket_connection_setup_timeout_ms / 1000)
        return tls_context(tls).wrap_socket(raw, server_hostname=host)
    except (OSError, SemelError) as error:
        raw.close()
        if not isinstance(error, OSError):
            raise
        asked = isinstance(error, ssl.SSLCertVerificationError | TimeoutError)  # it has answered by TLS, or not at all
        if raw_address is not None and not asked and _speaks_plain(raw_address, config):
            raise _no_tls(address, "it answers without") from None
        raise _broken_off(error, address) from None


def _speaks_plain(address: tuple[str, int], config: ClientConfig) -> bool:
    """Ask whether a listener that broke the handshake off is one without TLS: such a broker takes what TLS begins with
    for a length, and hangs up, as one that is being stopped does. No login goes with the question.
    """
    try:
        with socket.create_connection(address, timeout=config.socket_connection_setup_timeout_ms / 1000) as plain:
            plain.sendall(_WHICH_VERSIONS)
            return plain.recv(8)[4:] == _WHICH_VERSIONS[8:12]
    except OSError:
        return False


def _broken_off(error: OSError, address: str) -> SemelError:
    reason = error.reason or "" if isinstance(error, ssl.SSLError) else ""
    if "WRONG_VERSION_NUMBER" in reason or "PROTOCOL" in reason:
        return _no_tls(address, reason)
    retriable = Retriable(
        f"the connection to {address} broke in the TLS handshake: {error}. Is that a TLS listener?", tag="CONNECTION"
    )
    return refused(error, address) or retriable


def _no_tls(address: str, why: str) -> ConfigError:
    return ConfigError(
        f"{address} does not speak TLS as it is asked for here: {why}. Nothing was sent. Correct security.protocol, or"
        " the port.",
        tag="TLS",
    )


def refused(error: OSError | ValueError, address: str) -> SemelError | None:
    """Return the error of a broken connection that repeating does not cure, or None.

    With TLS 1.3 a broker refuses a client only after the handshake.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return ConfigError(
            f"the certificate of {address} is not believed: {error.verify_message}. Nothing was sent. Give the CA"
            " that signed it as ssl.truststore.location (PEM), and connect by a name that is in it.",
            tag="TLS",
        )
    reason = error.reason or "" if isinstance(error, ssl.SSLError) else ""
    if any(word in reason for word in _OF_OUR_CERTIFICATE):
        return ConfigError(
            f"{address} refused our TLS connection: {reason}. Nothing was written. (1) Give the client certificate"
            " that it asks for: ssl.keystore.location (PEM: private key and certificates). (2) Or allow a TLS version"
            " that it speaks: ssl.enabled.protocols.",
            tag="TLS",
        )
    return None


#: The last context that worked for each setting, and the times at which its files were written.
_worked: dict[Tls, tuple[tuple[int, ...], ssl.SSLContext]] = {}


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the context of the current files. While one of them is being replaced, return the context of its former
    content.
    """
    entry = _worked.get(tls)
    try:
        changed = tuple(map(_changed, (tls.truststore_location, tls.keystore_location)))
        if entry is None or entry[0] != changed:
            entry = _worked[tls] = changed, _context(tls)
    except ConfigError as error:
        if entry is None:
            raise
        log.warning("%s Until it can be read, what was in it before is used.", error.message)
    return entry[1]


def _changed(location: str | None) -> int:
    """Return when a file was written last: the next connection reads renewed certificates again."""
    try:
        return 0 if location is None else Path(location).stat().st_mtime_ns
    except OSError as error:
        raise _unreadable(location or "", error) from None


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.check_host_name
    _limit(context, tls)
    _trust(context, tls)
    _show(context, tls)
    return context


def server_context(tls: Tls, client_auth: str) -> ssl.SSLContext:
    """Return the context of a server. ``client_auth`` says whether clients show a certificate: none, requested or
    required. Raises :class:`ConfigError` for files that cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _limit(context, tls)
    _show(context, tls)
    context.verify_mode = _CLIENT_AUTH[client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        _trust(context, tls)
    return context


def _limit(context: ssl.SSLContext, tls: Tls) -> None:
    versions = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
    context.minimum_version, context.maximum_version = (
        choose(versions[name] for name in tls.versions) for choose in (min, max)
    )


def _trust(context: ssl.SSLContext, tls: Tls) -> None:
    where = tls.truststore_location or "ssl.truststore.certificates"
    try:
        store = _store(tls.truststore_location)
        if store is not None:
            context.load_verify_locations(cadata=certificates(store, where, tls.truststore_password))
        elif tls.truststore_location is not None:
            context.load_verify_locations(cafile=tls.truststore_location)
        elif tls.truststore_certificates is not None:
            context.load_verify_locations(cadata=tls.truststore_certificates)
        else:
            context.load_default_certs()
    except (OSError, ValueError, TypeError) as error:  # TypeError: text that is not ASCII
        raise _unreadable(where, error) from None


def _show(context: ssl.SSLContext, tls: Tls) -> None:
    if tls.keystore_location is None and tls.keystore_key is None:
        return

    def password() -> str:  # without it OpenSSL asks on the terminal
        return tls.key_password or ""

    where = tls.keystore_location or "ssl.keystore.key and ssl.keystore.certificate.chain"
    try:
        store = _store(tls.keystore_location)
        if store is not None:
            secret = secrets.token_hex()
            with _as_file(identity(store, where, tls.keystore_password, tls.key_password, secret)) as path:
                context.load_cert_chain(path, password=secret)
        elif tls.keystore_location is not None:
            context.load_cert_chain(tls.keystore_location, password=password)
        else:
            with _as_file(f"{tls.keystore_key}\n{tls.keystore_certificate_chain}\n") as path:
                context.load_cert_chain(path, password=password)
    except (OSError, ValueError) as error:
        raise _unreadable(where, error) from None


def _store(location: str | None) -> bytes | None:
    """Return the content of a file that is one of Java's stores, or None."""
    data = b"" if location is None else Path(location).read_bytes()
    return data if is_store(data) else None


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Write a text to a file, since OpenSSL reads keys from files alone. If the system can, the file is in memory,
    never on a disk.
    """
    in_memory = hasattr(os, "memfd_create")
    handle, path = (os.memfd_create("semel"), "") if in_memory else tempfile.mkstemp(prefix="semel-")
    try:
        os.write(handle, text.encode())
        yield path or f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)
        if path:
            Path(path).unlink()


def _unreadable(where: str, error: Exception) -> ConfigError:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
    return ConfigError(
        f"{where} cannot be read as PEM: {reason}. Nothing was sent. It must be there on every machine that connects,"
        " and a private key that is encrypted needs ssl.key.password.",
        tag="TLS_STORE",
    )


# ---- SASL


class _Token(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python ships no types
    """The source of tokens for kafka-python."""

    def __init__(self, text: str, extensions: tuple[tuple[str, str], ...]) -> None:
        self._text = text
        self._extensions = extensions

    def token(self) -> str:
        """Return the token of this login."""
        return self._text

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions of this login."""
        return dict(self._extensions)


def authenticate(sasl: Sasl, address: str, call: Call, *, again: bool) -> float | None:
    """Log in, ``again`` on a connection that is in use. Return the seconds for which the broker accepts the login, or
    None for no limit.

    Raise :class:`ConfigError` if the broker refuses, :class:`Retriable` if another connection may help.
    """
    text = token(sasl) if sasl.mechanism == "OAUTHBEARER" else ""
    shaken = call(SaslHandshakeRequest(mechanism=sasl.mechanism), 1)
    if shaken.error_code == _UNSUPPORTED_MECHANISM:
        offered = ", ".join(shaken.mechanisms) or "none"
        raise Unsupported(
            f"{address} does not take {sasl.mechanism}: it offers {offered}. Nothing was sent on this connection. Set"
            " sasl.mechanism to one of these.",
            tag="SASL_MECHANISM",
        )
    if shaken.error_code and again:  # brokers accept no second login within a second
        raise Retriable(
            f"{address} did not take another login on this connection (error {shaken.error_code}).", tag="CONNECTION"
        )
    if shaken.error_code:
        raise ConfigError(
            f"{address} wants no SASL (error {shaken.error_code}). Nothing was sent on this connection. Correct"
            " security.protocol.",
            tag="SASL",
        )
    mechanism = get_sasl_mechanism(sasl.mechanism)(
        sasl_mechanism=sasl.mechanism,
        sasl_plain_username=_name(sasl),
        sasl_plain_password=sasl.password,
        sasl_oauth_token_provider=_Token(text, sasl.extensions),
    )
    try:
        return _exchange(mechanism, sasl, address, call)
    except ConfigError as error:
        if text and rejected(sasl, text):
            raise Retriable(
                f"{error.message} That token was kept from before: another one is fetched.", tag="CONNECTION"
            ) from None
        raise


def _exchange(mechanism: Any, sasl: Sasl, address: str, call: Call) -> float | None:
    for _ in range(_MOST_ROUNDS):
        answer = call(SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes()), 2)
        if answer.error_code:
            raise _refusal(sasl, address, answer.error_message or f"error {answer.error_code}")
        said = bytes(answer.auth_bytes)
        rounds = _ITERATIONS.search(said) if sasl.mechanism.startswith("SCRAM") else None
        if rounds is not None and int(rounds[1]) < _FEWEST_ITERATIONS:  # few iterations expose the password
            raise _refusal(
                sasl,
                address,
                f"it asks for {int(rounds[1])} iterations, and {_FEWEST_ITERATIONS} is the least that is safe",
            )
        try:
            mechanism.receive(said)
        except (ValueError, KeyError) as error:  # SCRAM: a broker that does not know the password cannot sign for it
            raise _refusal(
                sasl,
                address,
                f"its part of {sasl.mechanism} is not that of a broker that knows us ({type(error).__name__})",
            ) from None
        if mechanism.is_done():
            return answer.session_lifetime_ms / 1000 or None
    raise _refusal(sasl, address, f"it did not come to an end in {_MOST_ROUNDS} rounds")


def _name(sasl: Sasl) -> str:
    """Return the user name as the mechanism sends it. In SCRAM, two characters have a meaning (RFC 5802), which
    kafka-python does not escape.
    """
    return (
        sasl.username.replace("=", "=3D").replace(",", "=2C") if sasl.mechanism.startswith("SCRAM") else sasl.username
    )


def _refusal(sasl: Sasl, address: str, said: str) -> ConfigError:
    who = f" as {sasl.username}" if sasl.username else ""
    return ConfigError(
        f"{address} did not let us in{who} by {sasl.mechanism}: {said}. Nothing was sent on this connection. Correct"
        " user, password or token, and sasl.mechanism.",
        tag="AUTHENTICATION",
    )
