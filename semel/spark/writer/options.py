"""The options of ``format("semel")`` as a sink: those of ``KafkaSink``, ``version`` for batch jobs, and Spark's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from semel.config import ClientConfig
from semel.errors import ConfigError, Unsupported
from semel.settings import missing
from semel.settings.reader import read_value
from semel.settings.table import Setting
from semel.spark.sink.options import SinkOptions

__all__ = ["WriterOptions"]

_TWO_PHASE = "kafka.transaction.two.phase.commit.enable"
_CHECKPOINT, _NAME, _VERSION = "checkpointlocation", "queryname", "version"


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """The options of one writer. ``two_phase`` is None where the cluster decides."""

    sink: SinkOptions
    config: ClientConfig
    two_phase: bool | None
    checkpoint: str | None
    version: int | None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> WriterOptions:
        """Read options, whose names Spark may have made lower case. Raises :class:`ConfigError` for a wrong one."""
        options = {name.lower(): value for name, value in given.items()}
        two_phase = _whether(_TWO_PHASE, options.pop(_TWO_PHASE, None))
        checkpoint = options.pop(_CHECKPOINT, None)
        options.pop(_NAME, None)
        text = options.pop(_VERSION, None)
        version = None if text is None else int(read_value(_VERSION, text, Setting(int)))
        sink = SinkOptions.parse(options, may_double=False)
        if not sink.exactly_once:
            raise Unsupported(
                'delivery=at_least_once is an option of KafkaSink, and format("semel") writes exactly once. Nothing was'
                " written. Remove the option, or use semel.spark.KafkaSink.",
                tag="DELIVERY",
            )
        return cls(sink, ClientConfig.parse(sink.properties), two_phase, checkpoint, version)

    def for_stream(self) -> str:
        """Return the location of the checkpoint. Raises :class:`ConfigError` without one, and for a version."""
        if self.version is not None:
            raise ConfigError(
                "version is an option of batch jobs, and this is a streaming query, whose batches have numbers. Nothing"
                " was written. Remove it.",
                tag="WRONG_VALUE",
            )
        if not self.checkpoint:
            raise missing(
                "checkpointLocation",
                "Nothing was written.",
                "Give it as an option of this query: a setting of the session does not reach the sink, and Spark"
                " deletes a temporary one.",
            )
        return self.checkpoint


def _whether(name: str, text: str | None) -> bool | None:
    return None if text is None else bool(read_value(name, text, Setting(bool)))
