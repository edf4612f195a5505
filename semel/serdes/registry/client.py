"""The registry: ids of schemas and schemas of ids, asked once each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from semel.extras import needs_extras
from semel.serdes.registry.errors import RegistryUnusable, translated
from semel.serdes.registry.settings import RegistrySettings
from semel.settings import NOTHING

__all__ = ["Reference", "Registered", "Registry", "SchemaText"]


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one names: its name there, and where it is registered."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema as it is registered. ``kind`` is AVRO, JSON or PROTOBUF."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema, and its id."""

    id: int
    schema: SchemaText


class Registry:
    """A registry. It connects with the first question.

    Raises :class:`~semel.errors.Retriable` where it cannot be reached, :class:`~semel.errors.ConfigError` for what it
    refuses. ``nothing`` says in messages what that means for the data.
    """

    def __init__(self, settings: RegistrySettings, nothing: str = NOTHING) -> None:
        self.settings, self._nothing = settings, nothing
        with needs_extras("a schema registry", "registry", nothing):
            import confluent_kafka.schema_registry
        self._module = confluent_kafka.schema_registry
        self._texts: dict[int, SchemaText] = {}

    @cached_property
    def _client(self) -> Any:
        try:
            return self._module.SchemaRegistryClient(self.settings.client())
        except (ValueError, TypeError, OSError) as error:  # two logins, or a file that is no certificate
            raise RegistryUnusable(
                f"the settings of the registry cannot be used: {error!s:.300}. {self._nothing} Correct them.",
                tag="WRONG_VALUE",
            ) from None

    def _asking(self, asked: str) -> Any:
        return translated(asked, self.settings.url, self._nothing)

    def identify(self, subject: str, schema: SchemaText) -> Registered:
        """Return the schema that a record gets, and its id: this one, the newest, or one by its id, by the settings.

        Where it may register schemas, it registers this one if it is new.
        """
        settings = self.settings
        if settings.auto_register:
            with self._asking(f"register the schema of subject {subject!r}"):
                return Registered(self._client.register_schema(subject, self._made(schema), settings.normalize), schema)
        if settings.use_id >= 0:
            return Registered(settings.use_id, self.text(settings.use_id))
        if settings.use_latest:
            return self.newest(subject)
        with self._asking(f"find the schema of this record in subject {subject!r}"):
            found = self._client.lookup_schema(subject, self._made(schema), settings.normalize)
        return Registered(found.schema_id, schema)

    def newest(self, subject: str) -> Registered:
        """Return the newest schema of a subject."""
        with self._asking(f"read the newest schema of subject {subject!r}"):
            found = self._client.get_latest_version(subject)
        return Registered(found.schema_id, _text(found.schema))

    def version(self, subject: str) -> int:
        """Return the newest version of a subject."""
        with self._asking(f"read the newest schema of subject {subject!r}"):
            return int(self._client.get_latest_version(subject).version)

    def text(self, number: int) -> SchemaText:
        """Return the schema with an id."""
        found = self._texts.get(number)
        if found is None:
            with self._asking(f"read the schema with the id {number}"):
                found = self._texts[number] = _text(self._client.get_schema(number))
        return found

    def referenced(self, references: Sequence[Reference]) -> dict[str, SchemaText]:
        """Return the schemas that are named, and those that they name, by their names. The first are needed first."""
        schemas: dict[str, SchemaText] = {}
        for one in references:
            if one.name in schemas:
                continue
            with self._asking(f"read version {one.version} of subject {one.subject!r}"):
                found = _text(self._client.get_version(one.subject, one.version).schema)
            for name, text in self.referenced(found.references).items():
                schemas.setdefault(name, text)
            schemas[one.name] = found
        return schemas

    def close(self) -> None:
        """Close its connections."""
        if "_client" in self.__dict__:
            self._client.close()

    def _made(self, schema: SchemaText) -> Any:
        references = [self._module.SchemaReference(one.name, one.subject, one.version) for one in schema.references]
        return self._module.Schema(schema.text, schema.kind, references)


def _text(schema: Any) -> SchemaText:
    references = (Reference(one.name, one.subject, one.version) for one in schema.references or ())
    return SchemaText(schema.schema_type or "AVRO", schema.schema_str, tuple(references))
