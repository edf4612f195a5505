"""Options of Confluent's ``AvroData``."""

from __future__ import annotations

from dataclasses import dataclass

from semel.settings.fields import setting

__all__ = ["AvroOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroOptions:
    """What of Kafka Connect's schemas Avro's say, and how."""

    #: Whether Avro's schema has Kafka Connect's name, version, documentation, parameters and default.
    connect_metadata: bool = setting(bool, True, name="connect.meta.data")
    #: Whether a text with the parameters of an enumeration is one.
    enhanced: bool = setting(bool, False, name="enhanced.avro.schema.support")
    scrub_names: bool = setting(bool, False, name="scrub.invalid.names")
    field_docs: bool = setting(bool, False, name="discard.type.doc.default")
    optional_map_keys: bool = setting(bool, False, name="allow.optional.map.keys")
    null_stays: bool = setting(bool, False, name="ignore.default.for.nullables")
