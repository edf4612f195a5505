"""Rights that a flow lacks, named before it takes over: nothing was written then, and no driver was fenced.

Brokers tell what a login may do with topics and groups that are there (KIP-430). What they do not tell, rights on the
transactional id and the right to create a topic, is named when the request is refused, before any row is copied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from semel.errors import ConfigError
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.offsets.segment_topic import SEGMENTS
from semel.mirror.topics import find
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.wire.api import authorized_operations
from semel.wire.client import Client

__all__ = ["check_rights"]

#: A topic with a longer name cannot be made: that stops its source topic, and not the flow.
_LONGEST_NAME = 249


def check_rights(source: Client, target: Client, config: FlowConfig, group: str) -> None:
    """Raise :class:`ConfigError` that names all rights that are missing, where they can be asked for.

    ``group`` is KIP-656's, on the target. A source topic without Describe is not seen, and so not mirrored.
    """
    found = list(find(source, config))
    # Read too: committing offsets of a topic, and asking for its markers, need that right
    named = [name for name in map(config.policy.format_remote_topic, found) if len(name) <= _LONGEST_NAME]
    written = [*named, SEGMENTS, DEFAULT_TOPIC]
    missing = [
        *_of_topics(source, config.policy.source, found, ("Read",)),
        *_of_topics(target, config.policy.target, written, ("Read", "Write")),
    ]
    able = authorized_operations.of_group(target, group)
    if able is not None and "Read" not in able:
        missing.append(f"Read on the group {group} of {config.policy.target}")
    if missing:
        more = f", and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise ConfigError(
            f"the logins of {config.title} lack rights: {'; '.join(missing[:5])}{more}. Nothing was written, and a"
            " mirror that runs already was not stopped. Grant them, give other logins, or leave topics out"
            " (topics.exclude).",
            tag="MISSING_RIGHTS",
        )


def _of_topics(client: Client, alias: str, names: Collection[str], wanted: Collection[str]) -> Iterator[str]:
    """List the rights that are missing on topics that exist, or of which the brokers say nothing."""
    if not names:
        return
    for name, able in authorized_operations.of_topics(client, names).items():
        for operation in wanted:
            if able is not None and operation not in able:
                yield f"{operation} on the topic {name} of {alias}"
