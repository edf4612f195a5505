"""The places that positions are adopted from: what each says of the flow's partitions, and what has to be at rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import ClassVar

from semel.errors import ConfigError
from semel.mirror.config.flow_config import FlowConfig
from semel.strict_json import of_kind, read_array
from semel.wire.api.groups import all_committed
from semel.wire.api.offsets import LATEST, list_offsets, live_members
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["GivenOrigin", "GroupOrigin", "Origin", "Standing", "TimeOrigin", "Trust", "check_no_members"]

_NOTHING = "Nothing was changed."


class Trust(Enum):
    """The weight of a position beside what the target's last records show.

    ``CHOSEN``: it counts. ``KNOWN``: it counts where the records are not found in the source. ``TRAILING``: the target
    has the records before it, and may have more.
    """

    CHOSEN = "chosen"
    KNOWN = "known"
    TRAILING = "trailing"


@dataclass(frozen=True, slots=True)
class Standing:
    """The next offset to copy of a source partition, and ``where`` it is from.

    ``in_transaction``: it was committed with the records, where these were transactional.
    """

    position: int
    where: str
    trust: Trust
    in_transaction: bool = False


@dataclass(frozen=True, slots=True)
class Origin(ABC):
    """A place that positions come from.

    If it ``lists_all``, a partition without a position has not been copied up to a commit. With ``by_rows`` the
    target's last records are searched in the source where it has no position.
    """

    lists_all: ClassVar[bool] = False
    by_rows: ClassVar[bool] = False

    @property
    @abstractmethod
    def title(self) -> str:
        """The origin in tables."""

    @abstractmethod
    def positions(
        self, source: Client, target: Client, config: FlowConfig, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Standing]:
        """Return where the source partitions stand that it knows."""

    def check_at_rest(self, source: Client, target: Client) -> None:
        """Raise :class:`ConfigError` if the program that has copied until now is at work."""
        return

    def fence(self, target: Client) -> None:
        """Fence that program, where the cluster can."""
        return


@dataclass(frozen=True, slots=True)
class GroupOrigin(Origin):
    """The committed offsets of a consumer group on the source, which a copier has committed after its writes."""

    group: str

    @property
    def title(self) -> str:
        """The name of the group."""
        return f"group {self.group}"

    def positions(
        self, source: Client, target: Client, config: FlowConfig, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Standing]:
        """Return its offsets. Raise :class:`ConfigError` if it has none."""
        offsets = all_committed(source, self.group)
        if not offsets:
            raise ConfigError(
                f"group {self.group!r} has no offsets on {config.policy.source}. {_NOTHING} Correct the group's name.",
                tag="NO_OFFSETS",
            )
        return {p: Standing(one.offset, self.title, Trust.TRAILING) for p, one in offsets.items()}

    def check_at_rest(self, source: Client, target: Client) -> None:
        """Raise :class:`ConfigError` if it has live members."""
        check_no_members(source, self.group, "Stop the program that copies now.")


def check_no_members(client: Client, group: str, remedy: str) -> None:
    """Raise :class:`ConfigError` if a group has live members."""
    members = live_members(client, group)
    if members:
        raise ConfigError(
            f"group {group!r} has live members ({', '.join(members[:3])}). {_NOTHING} {remedy} After a kill, brokers"
            " see its members until their session timeout.",
            tag="GROUP_IN_USE",
        )


@dataclass(frozen=True, slots=True)
class TimeOrigin(Origin):
    """The first records at or after a time. Without one, the end."""

    text: str
    milliseconds: int

    @classmethod
    def parse(cls, text: str) -> TimeOrigin:
        """Parse a time by ISO 8601. Without a zone it is UTC, as for Kafka's own tools."""
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise ConfigError(
                f"--from time:{text:.100} is no time. {_NOTHING} Give one as 2026-11-28T20:00:00Z.", tag="WRONG_VALUE"
            ) from None
        return cls(text, round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))

    @property
    def title(self) -> str:
        """The time as you gave it."""
        return f"time {self.text}"

    def positions(
        self, source: Client, target: Client, config: FlowConfig, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Standing]:
        """Return an offset of each partition."""
        committed = config.read_committed
        ends = list_offsets(source, dict.fromkeys(partitions, LATEST), read_committed=committed)
        found = list_offsets(source, dict.fromkeys(partitions, self.milliseconds), read_committed=committed)
        offsets = {p: row.offset if row.offset >= 0 else ends[p].offset for p, row in found.items()}
        return {p: Standing(offset, self.title, Trust.CHOSEN) for p, offset in offsets.items()}


@dataclass(frozen=True, slots=True)
class GivenOrigin(Origin):
    """Offsets that an operator gives, ``where`` they are from."""

    where: str
    rows: Mapping[TopicPartition, int]

    @classmethod
    def read(cls, path: Path) -> GivenOrigin:
        """Read a file, in the form that ``semel mirror translate --json`` prints. Raise :class:`ConfigError` if it
        cannot be read, or names a partition twice.
        """
        try:
            rows = [of_kind(dict, row) for row in read_array(path.read_bytes())]
            offsets = [
                ((of_kind(str, row["topic"]), of_kind(int, row["partition"])), of_kind(int, row["offset"]))
                for row in rows
            ]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path} has no offsets that can be read ({error!s:.200}). {_NOTHING} Give a JSON list as `semel mirror"
                ' translate --json` prints it: [{"topic": "orders", "partition": 0, "offset": 42}].',
                tag="WRONG_VALUE",
            ) from None
        positions = dict(offsets)
        if len(positions) < len(offsets):
            raise ConfigError(
                f"{path} names a partition twice. {_NOTHING} Leave one offset of each.", tag="WRONG_VALUE"
            )
        return cls(f"file {path.name}", positions)

    @property
    def title(self) -> str:
        """Where the offsets are from."""
        return self.where

    def positions(
        self, source: Client, target: Client, config: FlowConfig, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Standing]:
        """Return its rows. Raise :class:`ConfigError` for one of a partition that the flow does not mirror."""
        foreign = sorted(self.rows.keys() - set(partitions))
        if foreign:
            topic, index = foreign[0]
            raise ConfigError(
                f"{self.where} has an offset of {topic}-{index}, which {config.title} does not mirror. {_NOTHING}"
                f" Name partitions of {config.policy.source} that the file of the mirror asks for.",
                tag="NOT_MIRRORED",
            )
        return {p: Standing(offset, self.where, Trust.CHOSEN) for p, offset in self.rows.items()}
