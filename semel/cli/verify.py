"""``semel verify``: a check that each id is in a topic once, and that the whole source is there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from semel.admin.verify.compare import Example, Of, OnProgress, Read, Verified, verify
from semel.admin.verify.record_id import IdPlace
from semel.cli.help import application, examples
from semel.cli.options import AsJson, Configured, Servers, connect, exit_2_on_error, print_json, print_table
from semel.errors import ConfigError
from semel.read.start_offsets import AtOffsets, AtTimestamp, Earliest, EndSpec, Latest, StartSpec

__all__ = ["app"]

app = application()
_WHERE = 'earliest, latest, a time (2026-11-22T10:00), or an offset for each partition as JSON ({"0": 42}).'


@app.command(
    epilog=examples(
        "semel verify --bootstrap-server localhost:9092 --topic orders --id key",
        "semel verify --bootstrap-server localhost:9092 --topic totals \\\n"
        "    --id 'json:$.order_id' --against orders --against-id key",
    )
)
def check(
    bootstrap_server: Servers,
    topic: Annotated[str, typer.Option("--topic", help="The topic to check.")],
    id_place: Annotated[
        str,
        typer.Option(
            "--id", help="Where a record has its id: key, header:NAME, or json:$.path of a field in the value."
        ),
    ],
    against: Annotated[
        str | None,
        typer.Option("--against", help="The source topic. With it, lost and unknown ids are counted too."),
    ] = None,
    against_id: Annotated[
        str | None, typer.Option("--against-id", help="Where the source topic has its ids, if not at the same place.")
    ] = None,
    start: Annotated[str, typer.Option("--from", help=f"Where to start: {_WHERE}")] = "earliest",
    end: Annotated[
        str,
        typer.Option("--to", help="Where to end, exclusive, in the same forms. latest is the last stable offset now."),
    ] = "latest",
    against_start: Annotated[
        str, typer.Option("--against-from", help="Where to start in the source topic.")
    ] = "earliest",
    against_end: Annotated[str, typer.Option("--against-to", help="Where to end in the source topic.")] = "latest",
    show: Annotated[int, typer.Option(min=1, help="The number of ids of each kind to show.")] = 20,
    temporary: Annotated[
        Path | None,
        typer.Option("--temporary-directory", help="A folder for the ids. It needs their size plus 20 bytes a record."),
    ] = None,
    command_config: Configured = None,
    as_json: AsJson = False,
) -> None:
    """Count the doubled ids of a topic and, with `--against`, the lost ones.

    The command reads as a `read_committed` reader does, and changes nothing. Stop the writers or set the ends first:
    rows that are written meanwhile can look lost. Times without a zone are local times.

    Status:

    - 0: nothing was found.
    - 1: ids are doubled, lost or unknown, records have no id, or there are no records.
    - 2: the check could not be made.
    - 3: some ids are in the source more often than in the topic, and nothing else was found.
    """
    with exit_2_on_error():
        asked = Of(topic, IdPlace.parse(id_place), _start("--from", start, topic), _end("--to", end, topic))
        source = None
        if against is not None:
            place = IdPlace.parse(against_id or id_place)
            source = Of(
                against,
                place,
                _start("--against-from", against_start, against),
                _end("--against-to", against_end, against),
            )
        elif (against_id, against_start, against_end) != (None, "earliest", "latest"):
            raise ConfigError(
                "--against-id, --against-from and --against-to speak of the topic of --against. Nothing was read."
                " Name it."
            )
        with connect(bootstrap_server, command_config) as client, _bar(quiet=as_json) as on_progress:
            result = verify(client, asked, source, examples=show, directory=temporary, on_progress=on_progress)
    if as_json:
        print_json(_value(result))
    else:
        _show(Console(soft_wrap=True), result)
    if not result.clean or not result.topic.records:
        raise typer.Exit(1)
    if result.fewer:
        raise typer.Exit(3)


def _start(option: str, text: str, topic: str) -> StartSpec:
    return Earliest() if text == "earliest" else _end(option, text, topic)


def _end(option: str, text: str, topic: str) -> EndSpec:
    if text == "latest":
        return Latest()
    try:
        if text.startswith("{"):
            return AtOffsets({topic: {int(index): _whole(offset) for index, offset in json.loads(text).items()}})
        return AtTimestamp(int(datetime.fromisoformat(text).timestamp() * 1000), no_match="latest")
    except ValueError:
        raise ConfigError(
            f"{option} {text!r} is no place in a topic. Nothing was read. Give {_WHERE}", tag="WRONG_VALUE"
        ) from None


def _whole(offset: object) -> int:
    if type(offset) is not int:
        raise ValueError(offset)
    return offset


@contextmanager
def _bar(*, quiet: bool) -> Iterator[OnProgress]:
    """Report progress, on a terminal alone. It goes where errors go, so that the output stays what it is."""
    console = Console(stderr=True)
    columns = (TextColumn("reading"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task("", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _show(console: Console, result: Verified) -> None:
    for read in filter(None, (result.topic, result.source)):
        console.print(_what_was_read(read))
    table = Table("looked for", "found", "", box=None, header_style="bold", padding=(0, 2))
    table.add_row(
        "duplicates", _ids(result.duplicated), f"{_records(result.surplus)} too many" if result.surplus else ""
    )
    if result.lost is None:
        table.add_row("losses", "not checked", "name the topic that it was made from: --against TOPIC")
    else:
        table.add_row("losses", _ids(result.lost), "in the source, and not in the topic" if result.lost else "")
        table.add_row(
            "strangers", _ids(result.strangers or 0), "in the topic, and not in the source" if result.strangers else ""
        )
    print_table(console, table)
    if not result.topic.records:
        console.print("not one record lies there, so nothing was checked: is it the right part of the topic?")
    for note in _notes(result):
        console.print(note)
    for kind, title in (("duplicated", "duplicate"), ("lost", "lost"), ("strangers", "stranger")):
        if result.examples[kind]:
            console.print()
            print_table(console, _examples(result, title, result.examples[kind]))


def _ids(count: int) -> str:
    return f"{count:,} id{'s' if count != 1 else ''}" if count else "none"


def _records(count: int) -> str:
    return f"{count:,} record{'s' if count != 1 else ''}"


def _what_was_read(read: Read) -> str:
    offsets = ", ".join(f"{one.partition}: {one.start} to {one.end - 1}" for one in read.ranges)
    text = f"{read.topic}: {_records(read.records)} read (offsets by partition: {offsets or 'none'})"
    if read.hidden:
        text += f"\n  offsets after an open transaction that were not read: {read.hidden:,}; `semel txn list` names it"
    if read.without_id:
        text += (
            f"\n  {_records(read.without_id)} without an id, of which nothing can be said:"
            f" {_places(read.places_without_id)}"
        )
    return text


def _notes(result: Verified) -> Iterator[str]:
    if result.repeated:
        yield (
            f"{result.repeated:,} ids are more than once in the topic and in the source: they are not counted as"
            " duplicates"
        )
    if result.fewer:
        yield (
            f"{result.fewer:,} ids are more often in the source than in the topic: this id does not show whether rows"
            " of them are missing (status 3)"
        )
    if result.duplicated:
        yield (
            "an output that writes an id again on purpose (sums in update mode) has each new value here as a"
            " duplicate: compare the newest values instead"
        )
    if result.lost:
        yield ("new rows that the pipeline has not copied yet count as lost: `semel progress list` shows the lag")
        yield (
            "rows that the pipeline filters out count as lost too: compare with a topic that has the same ids, or"
            " check only for duplicates"
        )


def _examples(result: Verified, title: str, examples: Sequence[Example]) -> Table:
    source = result.source is not None
    table = Table(
        title,
        "times",
        *(["in the source"] if source else []),
        "first ones (partition: offset)",
        box=None,
        header_style="bold",
        padding=(0, 2),
    )
    for one in examples:
        more = "" if max(one.times, one.in_source or 0) <= len(one.places) else ", …"
        table.add_row(
            _text(one.id), str(one.times), *([str(one.in_source or 0)] if source else []), _places(one.places) + more
        )
    return table


def _places(places: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{partition}: {offset}" for partition, offset in places)


def _text(one: bytes) -> str:
    return one.decode(errors="backslashreplace")


def _value(result: Verified) -> dict[str, Any]:
    return {
        "clean": result.clean,
        "topic": _read_value(result.topic),
        "source": _read_value(result.source) if result.source is not None else None,
        "ids": result.ids,
        "duplicated": result.duplicated,
        "surplus_records": result.surplus,
        "lost": result.lost,
        "strangers": result.strangers,
        "repeated_in_source": result.repeated if result.source is not None else None,
        "fewer_than_in_source": result.fewer if result.source is not None else None,
        "examples": {
            kind: [
                {
                    "id": _text(one.id),
                    "times": one.times,
                    "times_in_source": one.in_source,
                    "first": _place_values(one.places),
                }
                for one in examples
            ]
            for kind, examples in result.examples.items()
        },
    }


def _read_value(read: Read) -> dict[str, Any]:
    return {
        "topic": read.topic,
        "records": read.records,
        "without_id": {"records": read.without_id, "first": _place_values(read.places_without_id)},
        "behind_open_transactions": read.hidden,
        "ranges": [{"partition": one.partition, "from": one.start, "to": one.end} for one in read.ranges],
    }


def _place_values(places: Sequence[tuple[int, int]]) -> list[dict[str, int]]:
    return [{"partition": partition, "offset": offset} for partition, offset in places]
