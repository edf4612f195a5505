"""A flow's look at what an operator wants of it: before it takes over, then once a second beside its rounds.

A look asks where one partition ends, and reads what is new there. It writes nothing. A deposed leader may show it what
was wanted a moment ago: no record is lost or doubled by that, because whoever sets positions fences the flow. A look
that fails changes nothing: the flow does what was wanted last.
"""

from __future__ import annotations

import logging
import threading

import pyarrow.compute as pc

from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.mirror.background.periodic import PeriodicWork
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.operation.wanted import CONTROL_SCOPE, FlowState, Wanted, control_id
from semel.read.ranges import Range, id_text
from semel.read.reader import Reader
from semel.transaction.progress.record import Progress
from semel.transaction.progress.topic import ProgressTopic
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client

__all__ = ["OperatorWatch"]

log = logging.getLogger("semel.mirror")

_INTERVAL_S = 1
#: How long what is known of the topic holds.
_TOPIC_AGE_MS = 30_000


class OperatorWatch:
    """The wanted state of one flow. Any thread may ask for :attr:`wanted`."""

    def __init__(self, config: FlowConfig, restart: threading.Event) -> None:
        """``restart`` is set while the flow is to take over again."""
        self._config, self._restart = config, restart
        self._client = Client(ClientConfig.parse(config.target))
        self._topic = ProgressTopic(self._client, control_id(config), CONTROL_SCOPE)
        self._lock = threading.Lock()
        #: The topic's id, and up to where it was read; no id while there is no topic.
        self._read_to: tuple[str, int] | None = None
        self._work = PeriodicWork(
            config.title, "pausing it is not seen", self.look, self._client.close, _INTERVAL_S, at_once=False
        )
        self.wanted = Wanted()

    def __enter__(self) -> OperatorWatch:
        self._work.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._work.close()

    @property
    def lets_go(self) -> bool:
        """True if the flow is to give its id up: it is stopped, or begins again."""
        return self.wanted.state is FlowState.STOPPED or self._restart.is_set()

    def read(self) -> Wanted:
        """Look now, and return what is wanted. Raises where that is not known."""
        try:
            self.look()
        except ConfigError as error:  # a right is missing: the takeover names all that are
            log.debug("%s: what is wanted of it cannot be read: %s", self._config.title, error)
        return self.wanted

    def look(self) -> None:
        """Take in what has changed since the last look."""
        with self._lock:
            began, self._read_to = self._read_to, None  # after an error all of it is read
            now = self._end()
            if now is not None and began != now:
                id, end = now
                start = began[1] if began is not None and began[0] == id else 0
                self._take_in(id, start, end)
            self._read_to = now

    def _end(self) -> tuple[str, int] | None:
        name = self._topic.name
        known = self._client.existing({name}, max_age_ms=_TOPIC_AGE_MS).get(name)
        if known is None:
            return None
        partition = self._topic.partition
        return id_text(known.id), list_offsets(self._client, {partition: LATEST}, read_committed=True)[partition].offset

    def _take_in(self, id: str, start: int, end: int) -> None:
        name, index = self._topic.partition
        with Reader(self._client, [Range(name, id, index, start, end)], fail_on_data_loss=False) as reader:
            for rows in reader:
                mine = rows.filter(pc.equal(rows.column("key"), self._topic.key))
                for value in mine.column("value").to_pylist():
                    self.wanted = _wanted(value, control_id(self._config))
                    if self.wanted.state is FlowState.STOPPED:
                        # positions may be set meanwhile: one that is resumed a moment later reads them too
                        self._restart.set()


def _wanted(value: bytes | None, where: str) -> Wanted:
    return Wanted.of(None if value is None else Progress.decode(value, where), where)
