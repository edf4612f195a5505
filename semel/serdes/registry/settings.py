"""Settings of a registry and its serialisers, by the names that Confluent's have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from semel.errors import ConfigError
from semel.security import is_pem_name
from semel.serdes.registry.subjects import STRATEGIES, Strategy
from semel.settings import NOTHING, not_yet, unknown
from semel.settings.fields import read_fields, setting, table_of
from semel.settings.unused import Names

__all__ = ["WITHOUT_EFFECT", "RegistrySettings", "read_registry"]

#: Confluent's, which change no record that is written: of caches, of reading, of rules' metrics, of a JVM.
WITHOUT_EFFECT = Names(
    """avro.reflection.allow.null avro.remove.java.properties avro.use.logical.type.converters derive.type
    flatten.singleton.unions flatten.unions generate.index.for.unions generate.struct.for.nulls ignore.modern.dialects
    int.for.enums json. key.schema.id.deserializer latest.cache.size max.schemas.per.subject missing.cache.size
    missing.id.cache.ttl.sec missing.schema.cache.ttl.sec missing.version.cache.ttl.sec optional.for.proto2
    plugin.version reference.subject.name.strategy rule.metrics.enable rule.service.loader.enable
    schema.registry.url.randomize schemas.cache.config schemas.cache.size schemas.enable skip.known.types specific.
    use.optional.for.nonrequired validation.rules.fail.fast value.schema.id.deserializer wrapper.for.raw.primitives"""
)
#: Confluent's that would change records, or who may ask, and are not there.
_LATER = Names(
    """bearer.auth.issuer.endpoint.url bearer.auth.client.id bearer.auth.client.secret bearer.auth.scope
    bearer.auth.custom.provider.class context.name.strategy enhanced.protobuf.schema.support execution.environment
    generalized.sum.type.support json.fail.invalid.schema key.schema.id.serializer preserve.additional.properties
    propagate.schema.tags proxy.host rule.actions rule.executors schema.backup.enabled schema.format
    use.latest.with.metadata use.schema.guid validation.rules.execution value.schema.id.serializer"""
)
#: Their values that change nothing.
_OFF = ("", "false", "disabled")
_STORES = ("PEM", "JKS", "PKCS12")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RegistrySettings:
    """Where the registry is, how to log in, and which schema a record gets."""

    url: str = setting(str, name="schema.registry.url")
    auto_register: bool = setting(bool, True, name="auto.register.schemas")
    use_latest: bool = setting(bool, False, name="use.latest.version")
    latest_strict: bool = setting(bool, True, name="latest.compatibility.strict")
    latest_ttl_s: int = setting(int, -1, 0, also=-1, name="latest.cache.ttl.sec")
    use_id: int = setting(int, -1, 0, also=-1, name="use.schema.id")
    id_strict: bool = setting(bool, True, name="id.compatibility.strict")
    normalize: bool = setting(bool, False, name="normalize.schemas")
    key_strategy: Strategy = setting(str, "TopicNameStrategy", name="key.subject.name.strategy")
    value_strategy: Strategy = setting(str, "TopicNameStrategy", name="value.subject.name.strategy")
    login: str = setting(str, "URL", name="basic.auth.credentials.source", one_of=("URL", "USER_INFO", "SASL_INHERIT"))
    user_info: str = setting(str, "", name="basic.auth.user.info")
    old_user_info: str = setting(str, "", name="schema.registry.basic.auth.user.info")
    bearer: str = setting(str, "", name="bearer.auth.credentials.source", one_of=("", "STATIC_TOKEN"))
    bearer_token: str = setting(str, "", name="bearer.auth.token")
    bearer_cluster: str = setting(str, "", name="bearer.auth.logical.cluster")
    bearer_pool: str = setting(str, "", name="bearer.auth.identity.pool.id")
    retries: int = setting(int, 3, 0, name="max.retries")
    retry_wait_ms: int = setting(int, 1000, 0, name="retries.wait.ms")
    longest_wait_ms: int = setting(int, 20_000, 0, name="retries.max.wait.ms")
    read_timeout_ms: int = setting(int, 60_000, 1, name="http.read.timeout.ms")
    connect_timeout_ms: int = setting(int, 60_000, 1, name="http.connect.timeout.ms")
    trusted: str = setting(str, "", name="schema.registry.ssl.truststore.location")
    trusted_kind: str = setting(str, "", name="schema.registry.ssl.truststore.type", one_of=("", *_STORES))
    own: str = setting(str, "", name="schema.registry.ssl.keystore.location")
    own_kind: str = setting(str, "", name="schema.registry.ssl.keystore.type", one_of=("", *_STORES))
    key_password: str = setting(str, "", name="schema.registry.ssl.key.password")

    def client(self) -> dict[str, Any]:
        """Return the configuration of confluent-kafka's client."""
        made: dict[str, Any] = {
            "url": self.url,
            "timeout": max(self.read_timeout_ms, self.connect_timeout_ms) / 1000,
            "max.retries": self.retries,
            "retries.wait.ms": self.retry_wait_ms,
            "retries.max.wait.ms": self.longest_wait_ms,
            "cache.latest.ttl.sec": None if self.latest_ttl_s < 0 else self.latest_ttl_s,
            "ssl.ca.location": self.trusted or None,
            "ssl.certificate.location": self.own or None,
            "ssl.key.location": self.own or None,
            "ssl.key.password": self.key_password or None,
        }
        if self.login == "USER_INFO":
            made["basic.auth.user.info"] = self.user_info or self.old_user_info
        if self.bearer:
            made |= {
                "bearer.auth.credentials.source": self.bearer,
                "bearer.auth.token": self.bearer_token,
                "bearer.auth.logical.cluster": self.bearer_cluster,
                "bearer.auth.identity.pool.id": self.bearer_pool or None,
            }
        return {name: value for name, value in made.items() if value is not None}


def read_registry(
    options: Mapping[str, str], prefix: str, others: Collection[str] = (), nothing: str = NOTHING
) -> RegistrySettings:
    """Read the settings of a registry. ``others`` are names that the converter's format has.

    Raises :class:`ConfigError` for what is missing, wrong or unknown, and
    :class:`~semel.errors.Unsupported` for what is not there yet. ``prefix`` stands before each name in messages.
    """
    table = table_of(RegistrySettings)
    for name in sorted(options.keys() - table.keys() - set(others)):
        if name in _LATER and options[name].strip().lower() not in _OFF:
            raise not_yet(f"{prefix}{name}", "Remove it.", nothing)
        if name not in _LATER and name not in WITHOUT_EFFECT:
            names = [f"{prefix}{one}" for one in (*table, *others)]
            raise unknown(f"{prefix}{name}", names, nothing, what="option of this converter")
    values = read_fields(RegistrySettings, options, nothing, prefix)
    for name in ("key_strategy", "value_strategy"):
        values[name] = _strategy(prefix + name.replace("_strategy", ".subject.name.strategy"), values[name], nothing)
    made = RegistrySettings(**values)
    _check(made, prefix, nothing)
    return made


def _strategy(name: str, text: str, nothing: str) -> Strategy:
    found = STRATEGIES.get(text.rpartition(".")[2])
    if found is None:
        raise not_yet(f"{name}={text:.200}", f"Use one of {', '.join(STRATEGIES)}.", nothing)
    return found


def _check(made: RegistrySettings, prefix: str, nothing: str) -> None:
    if made.login == "SASL_INHERIT":
        remedy = "Use USER_INFO, and give basic.auth.user.info."
        raise not_yet(f"{prefix}basic.auth.credentials.source=SASL_INHERIT", remedy, nothing)
    if made.login == "USER_INFO" and ":" not in (made.user_info or made.old_user_info):
        raise ConfigError(
            f"{prefix}basic.auth.user.info is not a name and a password with a colon between them. {nothing} Give it.",
            tag="WRONG_VALUE",
        )
    if made.bearer and not made.bearer_token:
        raise ConfigError(
            f"{prefix}bearer.auth.credentials.source=STATIC_TOKEN needs {prefix}bearer.auth.token. {nothing} Give it.",
            tag="MISSING_OPTION",
        )
    for store, kind, what in (
        (made.trusted, made.trusted_kind, "truststore"),
        (made.own, made.own_kind, "keystore"),
    ):
        if store and (kind or ("PEM" if is_pem_name(store) else "JKS")) != "PEM":
            where = f"{prefix}schema.registry.ssl.{what}.location={store:.200}, one of Java's stores,"
            raise not_yet(where, f"Give a PEM file, with ssl.{what}.type=PEM.", nothing)
    for url in made.url.split(","):
        if not url.strip().startswith(("http://", "https://")):
            raise ConfigError(
                f"{prefix}schema.registry.url={url.strip():.200} is not an address. {nothing} Write it as"
                " http://localhost:8081.",
                tag="WRONG_VALUE",
            )
