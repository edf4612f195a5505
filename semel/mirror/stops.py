"""Topics and partitions that are stopped, while the rest of their flow is copied.

A stopped partition keeps its position. It is tried again in a round of its own, so that no other partition's round is
aborted because of it: when topics are looked for again, and after a restart. The progress record names what is stopped,
so that ``semel mirror status`` can show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from semel.errors import ConfigError, DataLoss, SemelError, Unsupported
from semel.wire.metadata import TopicPartition

__all__ = ["WHOLE_TOPIC", "Stop", "Stops", "explained", "names_source", "stops_a_partition"]

#: The partition in the name of a topic that is stopped as a whole.
WHOLE_TOPIC = -1
#: Answers for one partition that say something of the login or the request: they stop the flow.
_OF_THE_FLOW = ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "INVALID_REQUIRED_ACKS")
_MOST_TEXT = 600


@dataclass(frozen=True, slots=True)
class Stop:
    """The reason why a partition, a topic or a group is not followed: an error's tag and message."""

    tag: str
    message: str

    @classmethod
    def of(cls, error: SemelError) -> Stop:
        """Return the reason that an error gives, in a bounded text."""
        text = error.message
        return cls(error.tag, text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]} …")


def stops_a_partition(error: SemelError) -> bool:
    """Return whether an error concerns one partition or topic alone, so that the others can be copied on."""
    kinds = (ConfigError, DataLoss, Unsupported)
    return error.partition is not None and isinstance(error, kinds) and error.tag not in _OF_THE_FLOW


@contextmanager
def names_source(targets: Mapping[TopicPartition, TopicPartition]) -> Iterator[None]:
    """Have an error about a target partition name its source partition. ``targets`` has each one's target."""
    try:
        yield
    except SemelError as error:
        if error.partition is not None:
            topic, index = error.partition
            of_topic = {target[0]: source[0] for source, target in targets.items()}
            error.partition = (of_topic[topic], index) if topic in of_topic else None
        raise


#: Of answers of the target about a record: what an operator can do there.
_WAYS_OUT = {
    "INVALID_RECORD": "A compacted topic takes no record without a key: set cleanup.policy=delete on it.",
    "INVALID_TIMESTAMP": "Raise message.timestamp.before.max.ms or message.timestamp.after.max.ms of it.",
    "MESSAGE_TOO_LARGE": "Raise max.message.bytes of it.",
}


def explained(error: SemelError, partition: TopicPartition, offset: int) -> SemelError:
    """Return an error of the target about a record with the place in the source, and with what a mirror can do."""
    way_out = _WAYS_OUT.get(error.tag)
    if way_out is None:
        return error
    subject, _, _ = error.message.partition(": the broker answered")
    return type(error)(
        f"{subject} was refused ({error.tag}): a record of {partition[0]}-{partition[1]} at or after offset {offset}."
        f" Nothing from there on is copied. {way_out} Or leave the topic out (topics.exclude). It is tried again by"
        " itself.",
        tag=error.tag,
    ).at(partition)


class Stops:
    """The stopped partitions and topics of a flow, each with its reason. ``known`` are those of the progress record."""

    def __init__(self, known: Mapping[TopicPartition, Stop]) -> None:
        self._found = dict(known)
        self._errors: dict[TopicPartition, SemelError] = {}
        self._trial = set(known)
        #: Each change of what is stopped counts one.
        self.changes = 0

    @property
    def found(self) -> dict[TopicPartition, Stop]:
        """All that is stopped, also what is about to be tried again."""
        return dict(self._found)

    @property
    def errors(self) -> list[SemelError]:
        """The errors that have stopped something since the start, by topic and partition."""
        return [error for _, error in sorted(self._errors.items())]

    def add(self, partition: TopicPartition, error: SemelError) -> bool:
        """Stop a partition or topic. Return whether it was not stopped by the same kind of error before."""
        before = self._found.get(partition)
        self._found[partition], self._errors[partition] = Stop.of(error), error
        self._trial.discard(partition)
        self.changes += 1
        return before is None or before.tag != error.tag

    def clear(self, partition: TopicPartition) -> bool:
        """Let a partition or topic be copied again. Return whether it was stopped."""
        self._trial.discard(partition)
        self._errors.pop(partition, None)
        self.changes += 1
        return self._found.pop(partition, None) is not None

    def forget(self, topic: str) -> None:
        """Forget what has stopped a topic and its partitions."""
        for partition in [each for each in self._found if each[0] == topic]:
            self.clear(partition)

    def try_again(self) -> None:
        """Put all that is stopped on trial."""
        self._trial = set(self._found)

    def topic_is_out(self, topic: str) -> bool:
        """Return whether a topic is stopped as a whole, and not on trial."""
        whole = (topic, WHOLE_TOPIC)
        return whole in self._found and whole not in self._trial

    def has(self, partition: TopicPartition) -> bool:
        """Return whether a partition is stopped by itself."""
        return partition in self._found

    def next_trial(self, there: Iterable[TopicPartition]) -> TopicPartition | None:
        """Return a partition on trial among those that can be read now."""
        return min(self._trial.intersection(there), default=None) if self._trial else None
