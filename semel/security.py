"""Identity and trust of a client: ``ssl.`` and ``sasl.`` properties, read, checked as a whole, and never shown.

Names, meanings and defaults are Kafka's, so that the options of Spark's own connector stay as they are,
``sasl.jaas.config`` among them. What only a JVM can do is refused by name, with what to give instead. No text made here
holds a value that was given as a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from semel.errors import ConfigError, Unsupported
from semel.jaas import Login, parse_jaas
from semel.settings import Setting, read_settings, split_list

__all__ = [
    "OF_THE_JVM",
    "PLAINTEXT",
    "SECURITY",
    "AwsLogin",
    "Sasl",
    "Security",
    "Tls",
    "TokenProvider",
    "only_in_java",
    "read_tls",
]

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
#: What each protocol leaves unused.
_UNUSED: Final = {"PLAINTEXT": ("ssl.", "sasl."), "SSL": ("sasl.",), "SASL_PLAINTEXT": ("ssl.",), "SASL_SSL": ()}
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM")

#: A function of no arguments that gives a token, or a token and the time in seconds since 1970 until which it holds; or
#: ``module:function``.
TokenProvider = Callable[[], "str | tuple[str, float]"]

_TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
#: Known, and without meaning outside a JVM: what they choose between does not exist here, and nothing gets weaker.
OF_THE_JVM: Final = frozenset(
    """ssl.protocol ssl.provider ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.login.refresh.min.period.seconds
    sasl.login.refresh.buffer.seconds sasl.login.retry.backoff.ms sasl.login.retry.backoff.max.ms
    sasl.login.read.timeout.ms""".split()
)
#: The properties that are read here.
SECURITY: Final = frozenset(
    """security.protocol ssl.truststore.location ssl.truststore.certificates ssl.truststore.type ssl.truststore.password
    ssl.keystore.location ssl.keystore.key ssl.keystore.certificate.chain ssl.keystore.type ssl.keystore.password
    ssl.key.password ssl.endpoint.identification.algorithm ssl.enabled.protocols ssl.cipher.suites sasl.mechanism
    sasl.jaas.config sasl.username sasl.password sasl.login.callback.handler.class sasl.login.connect.timeout.ms
    sasl.client.callback.handler.class
    sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.token.provider sasl.oauthbearer.scope
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret""".split()
)
_STANDARD_HANDLER: Final = "OAuthBearerLoginCallbackHandler"
#: Of Amazon's library for Java, and done here too: the first with AWS_MSK_IAM, the second with OAUTHBEARER.
_IAM_HANDLER: Final = "IAMClientCallbackHandler"
_IAM_TOKEN_HANDLER: Final = "IAMOAuthBearerLoginCallbackHandler"
_IN_JAVA: Final = ("sasl.kerberos.", "sasl.login.class", "ssl.engine.factory.class")
_STORES: Final = ("PEM", "JKS", "PKCS12")
_PEM_NAMES: Final = (".pem", ".crt", ".cer")
#: Where a broker's name has the region of AWS.
_REGION: Final = re.compile(r"\.(?:kafka|kafka-serverless)\.([a-z0-9-]+)\.(?:amazonaws\.com|api\.aws)")


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom to believe, and what to show. Locations are files of the machine that connects: of every executor, too. A
    file is PEM or one of Java's stores, by what it begins with.

    What is given as PEM itself is not shown, certificates neither: they often come from a file that holds the key too.
    """

    truststore_location: str | None = None
    truststore_password: str | None = field(default=None, repr=False)
    truststore_certificates: str | None = field(default=None, repr=False)
    keystore_location: str | None = None
    keystore_password: str | None = field(default=None, repr=False)
    keystore_certificate_chain: str | None = field(default=None, repr=False)
    keystore_key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_host_name: bool = True
    versions: tuple[str, ...] = _TLS_VERSIONS


@dataclass(frozen=True, slots=True)
class AwsLogin:
    """An identity of AWS. What is empty is found on the machine that connects."""

    region: str = ""
    profile: str = ""
    role_arn: str = ""
    session_name: str = ""


@dataclass(frozen=True, slots=True)
class Sasl:
    """The identity of a client. A mechanism uses a user and a password, or the source of a token."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    token_endpoint: str = ""
    scope: str = ""
    extensions: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    token_provider: TokenProvider | str | None = None
    connect_timeout_ms: int = 10_000
    aws: AwsLogin | None = None


@dataclass(frozen=True, slots=True)
class Security:
    """The layers between the socket and the frames."""

    protocol: str = "PLAINTEXT"
    tls: Tls | None = None
    sasl: Sasl | None = None

    @classmethod
    def parse(cls, properties: Mapping[str, object]) -> Security:
        """Read those of the properties that :data:`SECURITY` lists.

        Raises :class:`ConfigError` for what is malformed or contradictory, :class:`Unsupported` for what only a JVM can
        do.
        """
        given = {name: value for name, value in properties.items() if name in SECURITY and value is not None}
        protocol = _read(given, "security.protocol", Setting(str, "PLAINTEXT", one_of=PROTOCOLS))
        unused = [name for name in given if name.startswith(_UNUSED[protocol])]
        if unused:
            raise ConfigError(
                f"{unused[0]} was given, and security.protocol={protocol} does not use it: the connection would be"
                " less safe than what was asked for. Nothing was sent. Set security.protocol to one of"
                f" {', '.join(PROTOCOLS)}, or remove it.",
                tag="WRONG_VALUE",
            )
        tls = read_tls(given) if protocol.endswith("SSL") else None
        sasl = _sasl(given, str(properties.get("bootstrap.servers"))) if protocol.startswith("SASL") else None
        return cls(protocol, tls, sasl)


#: Neither TLS nor SASL.
PLAINTEXT: Final = Security()


# ---- TLS


def read_tls(given: Mapping[str, object]) -> Tls:
    """Read the ``ssl.`` properties. Raise :class:`ConfigError` or :class:`Unsupported` for what is wrong."""
    for store in ("truststore", "keystore"):
        _check_store(given, store)
    algorithm = _text(given, "ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("https", ""):
        raise ConfigError(
            f"ssl.endpoint.identification.algorithm={algorithm} is neither https nor empty. Nothing was sent. Give"
            " one of them."
        )
    if "ssl.cipher.suites" in given:
        raise Unsupported(
            "ssl.cipher.suites holds names of Java's, and passing over them would be weaker than what was asked for."
            " Nothing was sent. Remove it: OpenSSL chooses among its own for TLS 1.2 and 1.3."
        )
    names = tuple(split_list(_text(given, "ssl.enabled.protocols", ",".join(_TLS_VERSIONS))))
    if not names or any(name not in _TLS_VERSIONS for name in names):
        raise ConfigError(
            f"ssl.enabled.protocols={','.join(names)} may hold {', '.join(_TLS_VERSIONS)}. Nothing was sent. Correct"
            " it."
        )
    return Tls(
        truststore_location=_text(given, "ssl.truststore.location") or None,
        truststore_password=_password(given, "ssl.truststore.password"),
        truststore_certificates=_text(given, "ssl.truststore.certificates") or None,
        keystore_location=_text(given, "ssl.keystore.location") or None,
        keystore_password=_password(given, "ssl.keystore.password"),
        keystore_certificate_chain=_text(given, "ssl.keystore.certificate.chain") or None,
        keystore_key=_text(given, "ssl.keystore.key") or None,
        key_password=_text(given, "ssl.key.password") or None,
        check_host_name=algorithm == "https",
        versions=names,
    )


def _check_store(given: Mapping[str, object], store: str) -> None:
    location = _text(given, f"ssl.{store}.location")
    inline = [
        name
        for name in given
        if name.startswith(f"ssl.{store}.") and name.rsplit(".", 1)[1] in ("certificates", "key", "chain")
    ]
    kind = _text(given, f"ssl.{store}.type").upper()
    if kind not in ("", *_STORES):
        raise ConfigError(
            f"ssl.{store}.type={kind} is not one of {', '.join(_STORES)}. Nothing was sent. Give the store as one of"
            " them.",
            tag="TLS_STORE",
        )
    empty = [name for name in (f"ssl.{store}.location", *inline) if name in given and not _text(given, name)]
    if empty:
        raise ConfigError(
            f"{empty[0]} was given and is empty: others would be believed, or nothing shown. Nothing was sent. Give"
            " it, or leave it out.",
            tag="TLS_STORE",
        )
    if location and inline:
        raise ConfigError(
            f"ssl.{store}.location and {inline[0]} were both given. Nothing was sent. Give one of them.",
            tag="TLS_STORE",
        )
    if f"ssl.{store}.password" in given and not location and not inline:
        raise ConfigError(
            f"ssl.{store}.password was given, and ssl.{store}.location was not. Nothing was sent. Give both.",
            tag="TLS_STORE",
        )
    if f"ssl.{store}.password" in given and (inline or kind == "PEM" or (not kind and is_pem_name(location))):
        raise ConfigError(
            f"ssl.{store}.password was given, and a PEM file has none. Nothing was sent. Remove it;"
            " the password of an encrypted private key is ssl.key.password.",
            tag="TLS_STORE",
        )
    if inline and kind in ("JKS", "PKCS12"):
        raise ConfigError(
            f"{inline[0]} is PEM, and ssl.{store}.type is {kind}. Nothing was sent. Remove the type.", tag="TLS_STORE"
        )
    if store == "keystore" and len(inline) == 1:
        raise ConfigError(
            "ssl.keystore.key and ssl.keystore.certificate.chain go together, and one is missing. Nothing was sent."
            " Give both.",
            tag="TLS_STORE",
        )


def is_pem_name(location: str) -> bool:
    return location.lower().endswith(_PEM_NAMES)


# ---- SASL

_CLIENT_HANDLER: Final = "sasl.client.callback.handler.class"
_NEEDS: Final = (
    "{mechanism} needs {what}. Nothing was sent. Give sasl.jaas.config as Kafka's clients have it, or {instead}."
)


def _sasl(given: Mapping[str, object], servers: str) -> Sasl:
    mechanism = _text(given, "sasl.mechanism", "GSSAPI").upper()
    if mechanism not in MECHANISMS:
        by_default = " (Kafka's default, since sasl.mechanism is not given)" if "sasl.mechanism" not in given else ""
        raise Unsupported(
            f"sasl.mechanism={mechanism}{by_default} is not spoken here. Nothing was sent. Use a listener with one of"
            f" {', '.join(MECHANISMS)}.",
            tag="SASL_MECHANISM",
        )
    handler = _text(given, "sasl.login.callback.handler.class")
    if handler and not handler.endswith(_STANDARD_HANDLER) and not _is_iam(handler, mechanism):
        raise Unsupported(
            "sasl.login.callback.handler.class names a class of Java's, which cannot be run here. Nothing was sent."
            " Give sasl.oauthbearer.token.provider=module:function, a Python function that returns a token.",
            tag="SASL_MECHANISM",
        )
    if not _is_iam(_text(given, _CLIENT_HANDLER) or _IAM_HANDLER, "AWS_MSK_IAM"):
        raise _java_alone(_CLIENT_HANDLER)
    login = parse_jaas(_text(given, "sasl.jaas.config"), mechanism) if "sasl.jaas.config" in given else Login({})
    if mechanism == "AWS_MSK_IAM" or _is_iam(handler, "OAUTHBEARER"):
        return _aws_login(login, servers)
    return _token_login(given, login) if mechanism == "OAUTHBEARER" else _password_login(given, login, mechanism)


def _is_iam(handler: str, mechanism: str) -> bool:
    """Return whether a class is that of Amazon's library for this mechanism."""
    return handler.endswith({"AWS_MSK_IAM": _IAM_HANDLER, "OAUTHBEARER": _IAM_TOKEN_HANDLER}.get(mechanism, "\0"))


def _aws_login(login: Login, servers: str) -> Sasl:
    """Return the login that a token of AWS stands for. Its options are those of Amazon's library for Java."""
    named = _REGION.search(servers)
    aws = AwsLogin(
        named[1] if named else login.get("awsStsRegion"),
        login.get("awsProfileName"),
        login.get("awsRoleArn"),
        login.get("awsRoleSessionName"),
    )
    return Sasl("OAUTHBEARER", aws=aws)


def _password_login(given: Mapping[str, object], login: Login, mechanism: str) -> Sasl:
    username = login.get("username") or _text(given, "sasl.username")
    password = login.get("password") or _secret(given, "sasl.password")
    if not username or not password:
        what, instead = "a user name and a password", "sasl.username and sasl.password"
        raise ConfigError(_NEEDS.format(mechanism=mechanism, what=what, instead=instead), tag="SASL_LOGIN")
    return Sasl(mechanism, username, password)


def _token_login(given: Mapping[str, object], login: Login) -> Sasl:
    provider = given.get("sasl.oauthbearer.token.provider")
    if provider is not None and not callable(provider) and str(provider).count(":") != 1:
        raise ConfigError(
            "sasl.oauthbearer.token.provider is not module:function. Nothing was sent. Correct it.", tag="SASL_LOGIN"
        )
    if callable(provider) and type(provider).__hash__ is None:
        raise ConfigError(
            "sasl.oauthbearer.token.provider cannot be compared (no hash). Nothing was sent. Give a function.",
            tag="SASL_LOGIN",
        )
    endpoint = _text(given, "sasl.oauthbearer.token.endpoint.url")
    username = login.get("clientId") or _text(given, "sasl.oauthbearer.client.credentials.client.id")
    password = login.get("clientSecret") or _secret(given, "sasl.oauthbearer.client.credentials.client.secret")
    if provider is None and not (endpoint and username and password):
        what = "sasl.oauthbearer.token.endpoint.url with clientId and clientSecret"
        raise ConfigError(
            _NEEDS.format(
                mechanism="OAUTHBEARER", what=what, instead="sasl.oauthbearer.token.provider=module:function"
            ),
            tag="SASL_LOGIN",
        )
    if endpoint and not _is_address(endpoint):
        raise ConfigError(
            "sasl.oauthbearer.token.endpoint.url is no https address, or holds a user. Nothing was sent. Give"
            " https://host[:port]/path, and who asks as clientId and clientSecret.",
            tag="SASL_LOGIN",
        )
    if any("\x01" in part for extension in login.extensions for part in extension):
        raise ConfigError(
            "an extension of sasl.jaas.config holds a character that tokens cannot have. Nothing was sent. Correct it.",
            tag="SASL_LOGIN",
        )
    return Sasl(
        "OAUTHBEARER",
        username,
        password,
        endpoint,
        login.get("scope") or _text(given, "sasl.oauthbearer.scope"),
        login.extensions,
        provider if callable(provider) or provider is None else str(provider),
        _read(given, "sasl.login.connect.timeout.ms", Setting(int, 10_000, 1)),
    )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and " " not in url
    return plain and parts.scheme in ("https", "http") and bool(parts.hostname) and parts.username is None


def _read(given: Mapping[str, object], name: str, setting: Setting) -> Any:
    return read_settings({name: setting}, given, "Nothing was sent.")[name]


def _text(given: Mapping[str, object], name: str, default: str = "") -> str:
    return str(given.get(name, default)).strip()


def _secret(given: Mapping[str, object], name: str) -> str:
    return str(given.get(name, ""))  # not stripped: a password may begin or end with a blank


def _password(given: Mapping[str, object], name: str) -> str | None:
    return None if name not in given else _secret(given, name)


def only_in_java(name: str) -> Unsupported | None:
    """Return the refusal of a property that names a Java class or Kerberos, or None for any other name."""
    return _java_alone(name) if name.startswith(_IN_JAVA) else None


def _java_alone(name: str) -> Unsupported:
    return Unsupported(
        f"{name} belongs to what only a JVM can do. Nothing was sent. Use PEM, PKCS12 or JKS files, and SASL with one"
        f" of {', '.join(MECHANISMS)}.",
        tag="SASL_MECHANISM",
    )
