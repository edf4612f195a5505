"""``semel progress import``: the offsets of a query with Spark's own ``kafka`` source, moved to a prefix of semel's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from semel.admin.progress_import import KafkaCheckpoint, read
from semel.admin.progress_reset import at_positions, scope_of, set_to
from semel.cli.options import (
    AsJson,
    Configured,
    ProgressTopic,
    Servers,
    check_can_ask,
    confirm,
    connect,
    print_json,
    print_table,
)
from semel.errors import ConfigError
from semel.transaction.producer import Producer
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.wire.api.offsets import EARLIEST
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["carry"]

#: The scope of the progress: a query's.
_SCOPE = "query"
_UNCHANGED = "Nothing was changed."
#: The message after a takeover. The operator must know which query to start again.
_FENCED = "Nothing was changed; who ran under this prefix was fenced: start it again."


def carry(
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="The transactionalIdPrefix of the new query.")],
    bootstrap_server: Servers,
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", help="The old query's checkpoint, or a copy of it: a folder on this machine.")
    ],
    command_config: Configured = None,
    progress_topic: ProgressTopic = DEFAULT_TOPIC,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the offsets. Write nothing, and fence no owner.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Import the offsets of a query with Spark's own Kafka source, so that semel resumes there.

    Stop the old query first. The command reads the newest batch that its checkpoint calls committed, and writes these
    offsets as the progress of PREFIX. PREFIX must not have progress yet.

    No row is skipped. An at-least-once sink may have written rows of the next batch already: the command shows them,
    and semel writes them again.
    """
    check_can_ask(as_json=as_json, asks=not (yes or dry_run), instead="--yes or --dry-run")
    console = Console(soft_wrap=True, quiet=as_json)
    kafka_checkpoint = read(checkpoint)
    with connect(bootstrap_server, command_config) as client:
        progress = at_positions(client, [(source.name, source.next) for source in kafka_checkpoint.sources])
        starting = _starting(client, kafka_checkpoint)
        _show(console, kafka_checkpoint, starting)
        if not dry_run:
            _check_stateless(kafka_checkpoint, starting)
            _check_unknown(scope_of(client, prefix, progress_topic, _SCOPE), prefix)
            confirm(console, "Carry it over?", _UNCHANGED, yes=yes)
            with Producer(client, prefix, scope=_SCOPE, progress_topic=progress_topic) as owner:
                _check_unknown(owner.take_over(), prefix, _FENCED)
                _check_not_changed(kafka_checkpoint, checkpoint)
                set_to(owner, progress)
    if as_json:
        print_json(_value(kafka_checkpoint, starting, written=not dry_run))
    console.print("nothing was written" if dry_run else f"carried over: {prefix} resumes there")
    console.print(
        "\nnext: start the new query with a new, empty checkpoint"
        + (
            f" and startingOffsets={json.dumps(starting)}"
            if dry_run
            else f", startingOffsets=committed and transactionalIdPrefix={prefix} at its source"
        )
    )


def _check_stateless(checkpoint: KafkaCheckpoint, starting: Mapping[str, Mapping[str, int]]) -> None:
    if checkpoint.stateful:
        raise ConfigError(
            "the old query keeps state, and state cannot be imported. Nothing was changed. Start a new query with a"
            f" new prefix and checkpoint at startingOffsets={json.dumps(starting)}: its state begins empty. Earlier"
            " offsets rebuild the state, and write that output again.",
            tag="STATEFUL",
        )


def _check_unknown(progress: object, prefix: str, changed: str = _UNCHANGED) -> None:
    if progress is not None:
        raise ConfigError(
            f"{prefix!r} has progress already: a query has written under it, or offsets were carried over before."
            f" {changed} `semel progress describe` shows it, and `semel progress reset` changes it.",
            tag="HAS_PROGRESS",
        )


def _check_not_changed(checkpoint: KafkaCheckpoint, location: str) -> None:
    if read(location) != checkpoint:
        raise ConfigError(
            f"{location} has changed since it was shown: the old query still runs. {_FENCED} Stop the old query, then"
            " do this again.",
            tag="STILL_RUNNING",
        )


def _starting(client: Client, checkpoint: KafkaCheckpoint) -> dict[str, dict[str, int]]:
    """Return the offsets as ``startingOffsets``, which names every partition. Partitions that the checkpoint lacks are
    new, and read from their beginning.
    """
    ends = _ends(checkpoint, planned=False)
    topics = client.topics({topic for topic, _ in ends})
    return {
        name: {str(index): ends.get((name, index), EARLIEST) for index in sorted(topic.partitions)}
        for name, topic in sorted(topics.items())
    }


def _ends(checkpoint: KafkaCheckpoint, *, planned: bool) -> dict[TopicPartition, int]:
    """Return the ends of all partitions. If several sources read one partition, the lowest wins."""
    ends: dict[TopicPartition, int] = {}
    for source in checkpoint.sources:
        for topic, row in (source.planned if planned else source.next).items():
            for index, offset in row.items():
                ends[topic, index] = min(offset, ends.get((topic, index), offset))
    return ends


def _again(checkpoint: KafkaCheckpoint) -> dict[TopicPartition, tuple[int, int]]:
    """Return the first and last planned offsets that were not committed."""
    ends = _ends(checkpoint, planned=False)
    return {p: (ends.get(p, 0), end - 1) for p, end in _ends(checkpoint, planned=True).items() if end > ends.get(p, 0)}


def _show(console: Console, checkpoint: KafkaCheckpoint, starting: Mapping[str, Mapping[str, int]]) -> None:
    batch = "none: it stands at its first offsets" if checkpoint.committed is None else str(checkpoint.committed)
    facts = Table.grid(padding=(0, 2))
    facts.add_row("old query", checkpoint.query)
    facts.add_row("last committed batch", batch)
    print_table(console, facts)
    again = _again(checkpoint)
    table = Table("reads", "next offset", "may be written already", box=None, header_style="bold", padding=(0, 2))
    for topic, row in starting.items():
        for index, offset in row.items():
            first_last = again.get((topic, int(index)))
            twice = "-" if first_last is None else "{} to {}".format(*first_last)
            table.add_row(f"{topic}-{index}", "earliest (new)" if offset == EARLIEST else str(offset), twice)
    print_table(console, table)
    if again:
        console.print(
            "\nA batch was planned and is not committed. A sink that is at-least-once may have written its rows, all"
            " or some: the new query writes them again. To have them once, let the old query finish it, and do this"
            " again."
        )
    console.print(
        "\nnot checked: whether the topics were created again since (a checkpoint of Spark's source does not say)"
    )


def _value(checkpoint: KafkaCheckpoint, starting: Mapping[str, Mapping[str, int]], *, written: bool) -> dict[str, Any]:
    again = [
        {"topic": topic, "partition": index, "first_offset": first, "last_offset": last}
        for (topic, index), (first, last) in sorted(_again(checkpoint).items())
    ]
    return {
        "query": checkpoint.query,
        "committed": checkpoint.committed,
        "stateful": checkpoint.stateful,
        "startingOffsets": starting,
        "may_be_written_already": again,
        "written": written,
    }
