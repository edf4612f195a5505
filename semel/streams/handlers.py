"""Kafka Streams' exception handlers: what becomes of records that cannot be read, worked on or written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from semel.errors import ConfigError
from semel.settings import read_settings
from semel.settings.fields import setting, table_of

__all__ = ["Handlers", "handlers_of"]

_ERRORS = "org.apache.kafka.streams.errors."
_READ = (f"{_ERRORS}LogAndFailExceptionHandler", f"{_ERRORS}LogAndContinueExceptionHandler")
_WORK = (f"{_ERRORS}LogAndFailProcessingExceptionHandler", f"{_ERRORS}LogAndContinueProcessingExceptionHandler")
_WRITE = (f"{_ERRORS}DefaultProductionExceptionHandler",)
_OWN = ("fail", "continue")
#: The name that Kafka Streams had before.
_OLD = "default."


@dataclass(frozen=True)
class Handlers:
    """The settings of an application. Each handler is a class of Kafka Streams, or fail or continue."""

    deserialization_exception_handler: str = setting(str, _READ[0], one_of=(*_READ, *_OWN))
    processing_exception_handler: str = setting(str, _WORK[0], one_of=(*_WORK, *_OWN))
    #: Kafka Streams has no class that goes on here.
    production_exception_handler: str = setting(str, _WRITE[0], one_of=(*_WRITE, *_OWN))
    errors_dead_letter_queue_topic_name: str | None = setting(str, None)

    @property
    def reads_on(self) -> bool:
        """Whether records that do not fit their serialisation are left out."""
        return "continue" in self.deserialization_exception_handler.lower()

    @property
    def works_on(self) -> bool:
        """Whether records at which a function fails are left out."""
        return "continue" in self.processing_exception_handler.lower()

    @property
    def writes_on(self) -> bool:
        """Whether rows that cannot be written are left out."""
        return "continue" in self.production_exception_handler.lower()


def handlers_of(properties: Mapping[str, object]) -> Handlers:
    """Return the handlers of an application. Raise :class:`ConfigError` for other classes."""
    table = table_of(Handlers)
    named = dict(properties)
    for name in table:
        if _OLD + name in named:
            named.setdefault(name, named[_OLD + name])
    values = read_settings(table, named, "Nothing was read.")
    made = Handlers(**{name.replace(".", "_"): value for name, value in values.items()})
    if made.errors_dead_letter_queue_topic_name == "":
        raise ConfigError(
            "errors.dead.letter.queue.topic.name is empty. Nothing was read. Name a topic that exists, or leave it"
            " out.",
            tag="WRONG_VALUE",
        )
    return made
