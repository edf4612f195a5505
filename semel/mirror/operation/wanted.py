"""The state that an operator wants of a flow, and the topics that are paused alone.

It is kept in a progress record on the target, under an id of its own (:func:`control_id`): the flow's own id would
fence the flow. Whoever changes it owns that id for a moment, so two changes never mix, and none is lost. A flow reads
it before it takes over, and sees later changes, by its :mod:`semel.mirror.operation.watch`.

A paused flow keeps its id and copies nothing. A stopped one has given the id up: only then may its positions be set.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from semel.errors import ConfigError, DataLoss, Fenced
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.topics import wants
from semel.strict_json import of_kind
from semel.transaction.producer import Producer
from semel.transaction.progress.reader import committed_progress, snapshot
from semel.transaction.progress.record import Progress
from semel.transaction.progress.topic import ProgressTopic
from semel.wire.backoff import Backoff
from semel.wire.client import Client

__all__ = [
    "CONTROL_SCOPE",
    "FlowState",
    "Wanted",
    "change",
    "control_id",
    "pause_topic",
    "paused",
    "read_wanted",
    "set_state",
    "shown_wanted",
]

CONTROL_SCOPE = "mirror-control"
#: Two changes at one moment: the later one fences the earlier one, which is tried again.
_TRIES = 6
_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 2.0


class FlowState(Enum):
    """The states that an operator can ask for, by the names of Kafka Connect."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted state of a flow, and the source topics that are paused alone."""

    state: FlowState = FlowState.RUNNING
    paused_topics: frozenset[str] = frozenset()

    @classmethod
    def of(cls, progress: Progress | None, where: str) -> Wanted:
        """From a progress record. Without one, all of the flow is to run.

        Raises :class:`DataLoss` for one that says something else.
        """
        if progress is None:
            return cls()
        try:
            extra = of_kind(dict, progress.extra[CONTROL_SCOPE])
            topics = frozenset(of_kind(str, topic) for topic in of_kind(list, extra["paused_topics"]))
            return cls(FlowState(extra["state"]), topics)
        except (ValueError, KeyError, TypeError) as error:
            raise DataLoss(
                f"the progress of {where} does not say what a mirror is to do ({error!r:.200}). Nothing was copied."
                " Find out which other program uses that transactional id.",
                tag="PROGRESS_DAMAGED",
            ) from None

    def progress(self) -> Progress:
        """Return the record for a transaction."""
        return Progress(extra={CONTROL_SCOPE: {"state": self.state.value, "paused_topics": sorted(self.paused_topics)}})

    def with_topic(self, topic: str, *, is_paused: bool) -> Wanted:
        """Return this with one topic paused, or not."""
        topics = self.paused_topics | {topic} if is_paused else self.paused_topics - {topic}
        return replace(self, paused_topics=topics)


def control_id(config: FlowConfig) -> str:
    """Return the transactional id under which the wanted state of a flow is changed, and its key."""
    return f"mirror-control.{config.policy.source}.{config.policy.target}"


def read_wanted(target: Client, config: FlowConfig) -> Wanted:
    """Return the wanted state: every change that was answered is in it. Fences no owner."""
    id = control_id(config)
    return Wanted.of(committed_progress(target, id, scope=CONTROL_SCOPE), id)


def shown_wanted(target: Client, config: FlowConfig) -> Wanted:
    """Return the wanted state as a broker shows it now, for people. Writes nothing."""
    id, deadline = control_id(config), target.deadline()
    topic = ProgressTopic(target, id, CONTROL_SCOPE)
    newest = snapshot(target, topic, deadline).newest if topic.exists(deadline) else None
    return Wanted.of(None if newest is None else newest.progress, id)


def change(target: Client, config: FlowConfig, changed: Callable[[Wanted], Wanted]) -> Wanted:
    """Change the wanted state, and return it. ``changed`` may be called more than once.

    Raises what a takeover raises: a missing right on the id, a cluster that does not answer.
    """
    pauses = Backoff(_PAUSE_S, _LONGEST_PAUSE_S, jitter=0.5)
    for _ in range(_TRIES):
        try:
            return _change(target, config, changed)
        except Fenced:  # another change came in between, and this one was not committed
            time.sleep(pauses.next())
    return _change(target, config, changed)


def set_state(target: Client, config: FlowConfig, state: FlowState) -> Wanted:
    """Have a flow run, paused or stopped. Topics that are paused alone stay so."""
    return change(target, config, lambda wanted: replace(wanted, state=state))


def pause_topic(target: Client, config: FlowConfig, topic: str, *, is_paused: bool = True) -> Wanted:
    """Pause one source topic, or resume it. Raises :class:`ConfigError` for one that the file does not ask for."""
    if is_paused and not wants(config, topic):
        raise ConfigError(
            f"{config.title} does not mirror topic {topic!r:.250}. Nothing was changed. Name a topic of"
            f" {config.policy.source} that the file asks for: `semel mirror status` shows them.",
            tag="NOT_MIRRORED",
        )

    def changed(wanted: Wanted) -> Wanted:
        return wanted.with_topic(topic, is_paused=is_paused)

    return change(target, config, changed)


def _change(target: Client, config: FlowConfig, changed: Callable[[Wanted], Wanted]) -> Wanted:
    id = control_id(config)
    with Producer(target, id, scope=CONTROL_SCOPE) as producer:
        before = Wanted.of(producer.take_over(), id)
        wanted = changed(before)
        if wanted != before:
            with producer.transaction() as txn:
                txn.commit(wanted.progress())
            producer.wait_visible()
    return wanted


def paused(config: FlowConfig, wanted: Wanted) -> ConfigError:
    """Return the error of a copy that is to end by itself, of a flow that is not to run."""
    source, target = config.policy.source, config.policy.target
    return ConfigError(
        f"{config.title} is {wanted.state.value.lower()}. Nothing was copied. Resume it: semel mirror resume FILE"
        f" --source {source} --target {target}",
        tag="FLOW_PAUSED",
    )
