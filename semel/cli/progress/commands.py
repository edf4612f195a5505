"""``semel progress list | describe | reset | import | rename``: the progress of each prefix."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from semel.admin.lag import lags
from semel.admin.progress import PrefixProgress, list_progress
from semel.admin.progress_reset import at_offsets, forget, is_lost, scope_of, set_to
from semel.cli.help import application, examples
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
from semel.cli.progress.import_checkpoint import carry
from semel.cli.progress.rename import rename_prefix
from semel.errors import ConfigError
from semel.transaction.producer import Producer
from semel.transaction.progress.record import Progress
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["app"]

app = application(no_args_is_help=True, help="Show, set, move or forget the committed progress of queries.")
Prefix = Annotated[
    str, typer.Argument(metavar="PREFIX", help="A transactionalIdPrefix, or the transactional id of a producer.")
]


app.command(
    "import",
    epilog=examples(
        "semel progress import totals --bootstrap-server localhost:9092 \\\n"
        "    --checkpoint /data/old-checkpoint --dry-run"
    ),
)(carry)
app.command("rename", epilog=examples("semel progress rename totals totals-v2 --bootstrap-server localhost:9092"))(
    rename_prefix
)


class Scope(Enum):
    """The kind of owner of a progress record."""

    QUERY = "query"
    BATCH = "batch"
    PRODUCER = "producer"
    MIRROR = "mirror"


@app.command("list", epilog=examples("semel progress list --bootstrap-server localhost:9092"))
def list_all(
    bootstrap_server: Servers,
    command_config: Configured = None,
    progress_topic: ProgressTopic = DEFAULT_TOPIC,
    as_json: AsJson = False,
) -> None:
    """List every prefix with its committed progress and its lag."""
    with connect(bootstrap_server, command_config) as client:
        prefixes = list_progress(client, progress_topic=progress_topic)
        behind = lags(client, [one.progress for one in prefixes])
    if as_json:
        print_json([_value(one, lag) for one, lag in zip(prefixes, behind, strict=True)])
        return
    console = Console(soft_wrap=True)
    if not prefixes:
        console.print(f"{progress_topic} holds no progress")
        return
    titles = ("prefix", "of a", "batch", "committed", "reads", "writes", "lag")
    table = Table(*titles, box=None, header_style="bold", padding=(0, 2))
    for one, lag in zip(prefixes, behind, strict=True):
        reads = ", ".join(sorted({topic for topic, _ in lag})) or "-"
        total = _sum(lag)
        table.add_row(
            one.prefix,
            one.scope,
            _batch(one),
            _committed(one) or "-",
            reads,
            ", ".join(_wrote(one)) or "-",
            f"{total:,}" if total is not None else "-",
        )
    print_table(console, table)


@app.command(epilog=examples("semel progress describe totals --bootstrap-server localhost:9092"))
def describe(
    prefix: Prefix,
    bootstrap_server: Servers,
    command_config: Configured = None,
    progress_topic: ProgressTopic = DEFAULT_TOPIC,
    as_json: AsJson = False,
) -> None:
    """Show the progress of one prefix, partition by partition.

    The command shows the next offset to read, the lag, and where the last rows were written.
    """
    with connect(bootstrap_server, command_config) as client:
        scopes = [one for one in list_progress(client, progress_topic=progress_topic) if one.prefix == prefix]
        behind = lags(client, [one.progress for one in scopes])
    if not scopes:
        raise _unknown(prefix, progress_topic)
    if as_json:
        print_json([_value(one, lag) for one, lag in zip(scopes, behind, strict=True)])
        return
    console = Console(soft_wrap=True)
    for one, lag in zip(scopes, behind, strict=True):
        _show(console, one, lag)


@app.command(
    epilog=examples(
        "semel progress reset totals --bootstrap-server localhost:9092",
        "semel progress reset totals --bootstrap-server localhost:9092 \\\n"
        """    --to-offsets '{"orders": {"0": 42, "1": -2}}'""",
    )
)
def reset(
    prefix: Prefix,
    bootstrap_server: Servers,
    command_config: Configured = None,
    to_offsets: Annotated[
        str | None,
        typer.Option(
            "--to-offsets",
            help='Set the progress to these next offsets, as JSON: {"orders": {"0": 42, "1": -2}}. -2 means earliest.',
        ),
    ] = None,
    scope: Annotated[Scope | None, typer.Option(help="The kind of owner, if the prefix has several.")] = None,
    progress_topic: ProgressTopic = DEFAULT_TOPIC,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Forget the progress of a prefix, or set it to other offsets.

    The command shows the progress, and asks. It takes the prefix over first: a running query is fenced and stops, also
    if you answer no. That stop loses no data: restart the query.

    Written rows stay in their topics. A query that starts from earlier offsets writes them again.
    """
    check_can_ask(as_json=as_json, asks=not yes)
    console = Console(soft_wrap=True, quiet=as_json)
    offsets = _offsets(to_offsets) if to_offsets is not None else None
    with connect(bootstrap_server, command_config) as client:
        current_scope = scope_of(client, prefix, progress_topic, scope.value if scope is not None else None)
        whose = current_scope or (scope or Scope.QUERY).value
        if whose == Scope.MIRROR.value and offsets is not None:
            raise _of_a_mirror(prefix)
        lost = is_lost(client, prefix, whose, progress_topic)
        if current_scope is None and offsets is None and not lost:
            raise _unknown(
                prefix,
                progress_topic,
                "A query that starts under it starts over; set another start with --to-offsets. ",
            )
        before = PrefixProgress(prefix, whose, None, open=False)
        # a takeover leaves a trace, and with it the next start would continue without the progress: so decide
        # everything before it
        if lost:
            after = _decided(console, client, before, offsets, lost=True, yes=yes)
        with Producer(client, prefix, scope=whose, progress_topic=progress_topic, may_have_lost_progress=lost) as owner:
            progress = owner.take_over()
            if lost and progress is not None:
                raise _no_longer_lost(prefix)
            if not lost:
                before = PrefixProgress(prefix, whose, progress, open=False)
                after = _decided(console, client, before, offsets, lost=False, yes=yes)
            forget(owner) if after is None else set_to(owner, after)
    if as_json:
        done = PrefixProgress(prefix, whose, after, open=False)
        print_json({"before": _value(before, {}), "after": None if after is None else _value(done, {})})
    console.print("forgotten" if after is None else "set")


def _decided(
    console: Console,
    client: Client,
    before: PrefixProgress,
    offsets: dict[str, dict[int, int]] | None,
    *,
    lost: bool,
    yes: bool,
) -> Progress | None:
    """Show the consequences, and ask. Return the progress to write, or None to forget it."""
    after = at_offsets(client, before.progress, offsets) if offsets is not None else None
    if lost:
        console.print(
            f"The cluster knows transactions of {before.prefix!r}, but this topic has no progress of its"
            f" {before.scope}: it was lost. If it belonged to another kind of owner, give --scope. Afterwards nothing"
            " under this prefix is refused for that loss."
        )
    else:
        _show(console, before, *lags(client, [before.progress]))
    if after is not None:
        print_table(console, _moves(before, after))
    console.print(f"\n{_meaning(before.scope, forgotten=after is None)}")
    otherwise = (
        "Nothing was changed." if lost else "Nothing was changed. A query under this prefix was fenced: restart it."
    )
    confirm(console, "Forget it?" if after is None else "Set it so?", otherwise, yes=yes)
    return after


def _offsets(text: str) -> dict[str, dict[int, int]]:
    try:
        by_topic = {
            topic: {int(index): offset for index, offset in offsets.items()}
            for topic, offsets in json.loads(text).items()
        }
        if not by_topic or any(type(offset) is not int for offsets in by_topic.values() for offset in offsets.values()):
            raise ValueError(text)
    except (ValueError, AttributeError):
        raise ConfigError(
            f"--to-offsets {text!r} names no offsets. Nothing was changed. Give each partition of each topic one:"
            ' {"in": {"0": 42, "1": -2}}.',
            tag="WRONG_VALUE",
        ) from None
    return by_topic


def _meaning(scope: str, *, forgotten: bool) -> str:
    if scope == "batch":
        return "The committed version of this job is then unknown: the same version, run again, writes its rows again."
    if scope == "mirror":
        return (
            "The position of this mirror is then unknown: it starts over, and only with partitions that have no rows"
            " on this cluster."
        )
    if scope == "producer" and not forgotten:
        return (
            "Its program then finds these positions as stored with its last transaction, and nothing else that it"
            " had stored."
        )
    if scope == "producer":
        return (
            "The positions that this producer stored with its last transaction are then gone: its program begins as"
            " if it had never written."
        )
    checkpoint = (
        "With its old checkpoint, the query is then refused at its next batch, when there are new rows. (A query"
        " that is still in its very first batch is not refused, and writes it"
        f" again{'' if forgotten else '; a query that is exactly there continues'}.)"
    )
    effect = "Rows after this point are written again, and unread rows before it are skipped."
    if forgotten:
        return (
            f"{checkpoint} With a new, empty checkpoint (a refused one holds the refused batch) it begins at its"
            f" startingOffsets. {effect} A stateful query begins with empty state: its sums are right only if it reads"
            " all rows again (earliest)."
        )
    return (
        f"{checkpoint} A stateless query begins there with a new, empty checkpoint, startingOffsets=committed and"
        f" this transactionalIdPrefix at its source. {effect}"
    )


def _moves(before: PrefixProgress, after: Progress) -> Table:
    table = Table("reads", "now", "will be", box=None, header_style="bold", padding=(0, 2))
    now = _positions(before.progress)
    for (topic, index), offset in sorted(_positions(after).items()):
        table.add_row(f"{topic}-{index}", str(now.get((topic, index), "-")), str(offset))
    return table


def _unknown(prefix: str, progress_topic: str, meaning: str = "") -> ConfigError:
    return ConfigError(
        f"{progress_topic} holds no progress of {prefix!r}. Nothing was changed. {meaning}`semel progress list` shows"
        " whose it holds.",
        tag="UNKNOWN_PREFIX",
    )


def _of_a_mirror(prefix: str) -> ConfigError:
    return ConfigError(
        f"{prefix!r} is a flow of the mirror: its positions are offsets of another cluster, and cannot be set from"
        " here. Nothing was changed. After a loss, `semel mirror resolve` sets them. Without --to-offsets they are"
        " forgotten.",
        tag="OF_A_MIRROR",
    )


def _no_longer_lost(prefix: str) -> ConfigError:
    return ConfigError(
        f"{prefix!r} has progress: another run has set it since it was found lost. Nothing was changed; who"
        " ran under this prefix was fenced: start it again. `semel progress describe` shows what it has.",
        tag="NO_LONGER_LOST",
    )


def _show(console: Console, one: PrefixProgress, lag: Mapping[TopicPartition, int]) -> None:
    facts = Table.grid(padding=(0, 2))
    facts.add_row("prefix", one.prefix)
    facts.add_row("of a", one.scope)
    facts.add_row("last batch", _batch(one))
    if committed := _committed(one):
        facts.add_row("committed", committed)
    if one.progress is not None and one.progress.query is not None:
        facts.add_row("query, run", f"{one.progress.query}, {one.progress.run}")
    facts.add_row("at work", "a transaction of it is open" if one.open else "nothing of it is open")
    print_table(console, facts)
    if _positions(one.progress):
        table = Table("reads", "next offset", "lag", box=None, header_style="bold", padding=(0, 2))
        for (topic, index), offset in sorted(_positions(one.progress).items()):
            behind = lag.get((topic, index))
            table.add_row(
                f"{topic}-{index}",
                str(offset),
                "gone, or created again" if behind is None else f"{behind:,}",
            )
        print_table(console, table)
    wrote = Table("wrote last", "first offset", "last offset", box=None, header_style="bold", padding=(0, 2))
    for topic, ranges in _wrote(one).items():
        for index, (first, last) in sorted(ranges.items()):
            wrote.add_row(f"{topic}-{index}", str(first), str(last))
    if wrote.row_count:
        print_table(console, wrote)


def _positions(progress: Progress | None) -> dict[TopicPartition, int]:
    return progress.positions() if progress is not None else {}


def _batch(one: PrefixProgress) -> str:
    if one.progress is None:
        return "none committed"
    return (
        f"moved to {one.progress.moved}"
        if one.progress.moved
        else str(one.progress.batch)
        if one.progress.batch is not None
        else "-"
    )


def _committed(one: PrefixProgress) -> str | None:
    """Return the time of the commit in UTC: brokers and people are in several zones."""
    if one.committed_ms < 0:
        return None
    return datetime.fromtimestamp(one.committed_ms // 1000, UTC).isoformat().replace("+00:00", "Z")


def _wrote(one: PrefixProgress) -> Mapping[str, Mapping[int, tuple[int, int]]]:
    return one.progress.wrote if one.progress is not None else {}


def _sum(lag: Mapping[TopicPartition, int]) -> int | None:
    return sum(lag.values()) if lag else None


def _value(one: PrefixProgress, lag: Mapping[TopicPartition, int]) -> dict[str, Any]:
    progress = one.progress
    return {
        "prefix": one.prefix,
        "scope": one.scope,
        "open": one.open,
        "query": progress.query if progress is not None else None,
        "run": progress.run if progress is not None else None,
        "batch": progress.batch if progress is not None else None,
        "committed_at": _committed(one),
        "moved": progress.moved if progress is not None else None,
        "lag": _sum(lag),
        "reads": [
            {
                "topic": at[0],
                "partition": at[1],
                "next_offset": offset,
                "lag": lag.get(at),
            }
            for at, offset in sorted(_positions(one.progress).items())
        ],
        "wrote": [
            {"topic": topic, "partition": index, "first_offset": first, "last_offset": last}
            for topic, ranges in _wrote(one).items()
            for index, (first, last) in sorted(ranges.items())
        ],
    }
