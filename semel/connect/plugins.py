"""Classes of connectors and converters, by Python's names (``package.module.Class``) and by Kafka Connect's."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from semel._version import __version__
from semel.connect.api import SourceConnector
from semel.connect.converters import (
    BYTES,
    NUMBERS,
    STRING,
    WITHOUT_EFFECT,
    ConfiguredConverter,
    check_plain,
    json_converter,
)
from semel.connect.own_converters import own_converter
from semel.connect.registry_converters import REGISTRY_CONVERTERS, registry_converter
from semel.connect.sink_api import SinkConnector
from semel.connect.transforms import PREDICATES, TRANSFORMS
from semel.errors import ConfigError, SemelError, Unsupported
from semel.serdes.registry.settings import WITHOUT_EFFECT as REGISTRY_WITHOUT_EFFECT
from semel.settings import nearest, not_yet
from semel.settings.own_classes import JAVA, announced, imported, path_of

__all__ = [
    "check_header_converter",
    "connector_class",
    "converter",
    "kind_of",
    "option_of",
    "plugins",
    "without_effect",
]

_FILE = "semel.connect.connectors.file.FileStreamSource"
#: Kafka Connect's names, whole and short, of what semel brings.
_SOURCES = {
    **dict.fromkeys(
        ("FileStreamSource", "FileStreamSourceConnector", "org.apache.kafka.connect.file.FileStreamSourceConnector"),
        _FILE,
    ),
    **dict.fromkeys(
        ("SqlSource", "JdbcSourceConnector", "io.confluent.connect.jdbc.JdbcSourceConnector"),
        "semel.connect.connectors.sql.SqlSource",
    ),
    **dict.fromkeys(
        ("PostgresCdcSource", "PostgresConnector", "io.debezium.connector.postgresql.PostgresConnector"),
        "semel.connect.connectors.postgres.connector.PostgresCdcSource",
    ),
    "FilesSource": "semel.connect.connectors.files.FilesSource",
    "SingerSource": "semel.connect.connectors.singer.SingerSource",
    "DatagenSource": "semel.connect.connectors.datagen.DatagenSource",
}
_SINKS = {
    **dict.fromkeys(
        ("FileStreamSink", "FileStreamSinkConnector", "org.apache.kafka.connect.file.FileStreamSinkConnector"),
        "semel.connect.connectors.sinks.file.FileStreamSink",
    ),
    **dict.fromkeys(
        (
            "SqlSink",
            "JdbcSinkConnector",
            "io.confluent.connect.jdbc.JdbcSinkConnector",
            "io.aiven.connect.jdbc.JdbcSinkConnector",
        ),
        "semel.connect.connectors.sinks.sql.SqlSink",
    ),
    "DeltaSink": "semel.connect.connectors.sinks.delta.DeltaSink",
    "FileSink": "semel.connect.connectors.sinks.files.FileSink",
    "IcebergSink": "semel.connect.connectors.sinks.iceberg.IcebergSink",
}
_CONNECTORS = {**_SOURCES, **_SINKS}
_PLAIN = {
    **dict.fromkeys(("StringConverter", "String", "org.apache.kafka.connect.storage.StringConverter"), STRING),
    **dict.fromkeys(
        ("ByteArrayConverter", "ByteArray", "org.apache.kafka.connect.converters.ByteArrayConverter"), BYTES
    ),
}
#: Converters of headers for which these are written as they are.
_HEADERS = ("SimpleHeaderConverter", "Simple", "org.apache.kafka.connect.storage.SimpleHeaderConverter", *_PLAIN)
_CONVERTERS = _PLAIN | {
    name: made
    for kind, made in NUMBERS.items()
    for name in (f"{kind}Converter", kind, f"org.apache.kafka.connect.converters.{kind}Converter")
}
_TRANSFORMS = "org.apache.kafka.connect.transforms."
_JSON = ("JsonConverter", "Json", "org.apache.kafka.connect.json.JsonConverter")
_USE = (
    "Use AvroConverter, JsonConverter, StringConverter, ByteArrayConverter, LongConverter and the like, or a class of"
    " your own by its Python name."
)


class Plugin(NamedTuple):
    """A class that a worker has."""

    kind: str
    name: str
    version: str


def plugins() -> list[Plugin]:
    """Return those that semel has, and those that installed packages announce."""
    transforms = [
        f"{made.package}{name}{side}"
        for name, made in TRANSFORMS.items()
        for side in (("$Key", "$Value") if made.sided else ("",))
    ]
    own: dict[str, Iterable[str]] = {
        "source": dict.fromkeys(_SOURCES.values()),
        "sink": dict.fromkeys(_SINKS.values()),
        "transformation": transforms,
        "predicate": [f"{_TRANSFORMS}predicates.{name}" for name in PREDICATES],
        "converter": [name for name in (*_CONVERTERS, *_JSON, *REGISTRY_CONVERTERS) if name.startswith(JAVA)],
    }
    there = {
        "source": "sources",
        "sink": "sinks",
        "transformation": "transforms",
        "predicate": "predicates",
        "converter": "converters",
    }
    return [
        *(Plugin(kind, name, __version__) for kind, names in own.items() for name in names),
        *(
            Plugin(kind, name, entry.dist.version if entry.dist is not None else "undefined")
            for kind, group in there.items()
            for name, entry in announced(group).items()
        ),
    ]


def _path(name: str) -> str:
    """Return the path of the class of a ``connector.class``."""
    return _CONNECTORS.get(name) or path_of(name, "sources", "sinks")


def kind_of(name: str) -> str:
    """Return ``source`` or ``sink`` for a ``connector.class``, or ``unknown`` for a module that is not imported yet."""
    path = _path(name)
    if path in _SINKS.values() or name in announced("sinks"):
        return "sink"
    if path in _SOURCES.values() or name in announced("sources"):
        return "source"
    module, _, attribute = path.rpartition(".")
    found = getattr(sys.modules.get(module), attribute, None)
    if not isinstance(found, type):
        return "unknown"
    return "sink" if issubclass(found, SinkConnector) else "source"


def connector_class(name: str) -> type[SourceConnector] | type[SinkConnector]:
    """Return the class of ``connector.class``.

    Raises :class:`ConfigError` for one that cannot be imported or is no connector, :class:`Unsupported` for Java's.
    """
    path = _path(name)
    try:
        found = imported(path) if "." in path else None
    except ImportError as error:
        if path.startswith(JAVA):
            raise Unsupported(
                f"connector.class={name} is a Java class, and connectors here are Python classes. Nothing was read or"
                " written. Name a SourceConnector or SinkConnector of semel.connect, as package.module.Class.",
                tag="JAVA_CONNECTOR",
            ) from None
        raise ConfigError(
            f"connector.class={name} cannot be imported ({error}). Nothing was read or written. Install it on the"
            " driver and on the executors, or send it with --py-files.",
            tag="CONNECTOR_MISSING",
        ) from error
    if not (isinstance(found, type) and issubclass(found, (SourceConnector, SinkConnector))):
        hint = nearest(name, _CONNECTORS) or "."
        raise ConfigError(
            f"connector.class={name} is not a connector{hint} Nothing was read or written. Name a SourceConnector or"
            " SinkConnector of semel.connect, as package.module.Class.",
            tag="CONNECTOR_MISSING",
        )
    return found


def converter(name: str, setting: str, options: Mapping[str, str]) -> ConfiguredConverter:
    """Return the converter of a setting. Raise :class:`Unsupported` or :class:`ConfigError`."""
    if name in _JSON:
        return json_converter(options, setting)
    if name in _CONVERTERS:
        check_plain(options, setting, text=_CONVERTERS[name] is STRING)
        return _CONVERTERS[name]
    if name in REGISTRY_CONVERTERS:
        return registry_converter(name, options, setting)
    if name.startswith(JAVA):
        raise not_yet(f"{setting}={name}", _USE)
    own = own_converter(name, setting, options)
    if own is not None:
        return own
    hint = nearest(name, [*_CONVERTERS, *_JSON, *REGISTRY_CONVERTERS]) or "."
    raise ConfigError(
        f"{setting}={name} is not a known converter{hint} Nothing was read or written. {_USE}", tag="WRONG_VALUE"
    )


def check_header_converter(name: str, options: Mapping[str, str]) -> None:
    """Raise :class:`Unsupported` for a converter that would change headers, :class:`ConfigError` for its options."""
    if name not in _HEADERS:
        remedy = "Remove it, or use SimpleHeaderConverter: headers are written as they are."
        raise not_yet(f"header.converter={name:.200}", remedy)
    check_plain(options, "header.converter", text=True)


def option_of(error: SemelError, setting: str, options: Iterable[str]) -> str:
    """Return the setting that an error of a converter is about: one of its options, or its class."""
    names = (f"{setting}.{option}" for option in options)
    return next((name for name in names if error.message.startswith((f"{name} ", f"{name}="))), setting)


def without_effect(name: str, options: Iterable[str]) -> list[str]:
    """Return the options of a converter that are taken and change nothing."""
    if name in REGISTRY_CONVERTERS:
        return [option for option in options if option in REGISTRY_WITHOUT_EFFECT]
    taken = WITHOUT_EFFECT if name in _JSON else {*WITHOUT_EFFECT, "schemas.enable"}
    return [option for option in options if option in taken]
