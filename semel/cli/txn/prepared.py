"""``semel txn commit | sweep``: the end of prepared transactions, by hand and by their decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from semel.admin.txn import (
    TransactionInfo,
    check_not_part,
    commit_transaction,
    describe_transaction,
    end_parts,
    list_transactions,
)
from semel.cli.options import AsJson, Configured, Servers, check_can_ask, confirm, connect, print_json, properties_of
from semel.cli.txn.show import json_value, show, whose
from semel.cluster import Cluster
from semel.errors import ConfigError
from semel.extras import needs_extras
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.transaction.transactional_id import IdKind, check_prefix
from semel.transaction.two_phase.prepared import Prepared
from semel.transaction.two_phase.recovery import Recovered

__all__ = ["commit", "sweep"]


def commit(
    transactional_id: Annotated[
        str, typer.Argument(metavar="ID", help="The transactional id, as `semel txn list` shows it.")
    ],
    bootstrap_server: Servers,
    command_config: Configured = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Commit the prepared transaction of an id.

    Use it only if the decision was to commit and the program will not start again. Stop the program first, or a
    part of its rows could be committed. The command shows the rows that become visible, and asks.

    The command does not know the decision, and does not check whether rows were deleted. The program's own recovery
    does, and so does `semel txn sweep`.
    """
    check_can_ask(as_json=as_json, asks=not yes)
    console = Console(soft_wrap=True, quiet=as_json)
    with connect(bootstrap_server, command_config) as client:
        info = describe_transaction(client, transactional_id)
        show(console, info)
        check_not_part(info)
        if info.prepared:
            console.print("\nIts rows become visible for ever. Commit it only if that is the decision.")
            confirm(
                console, "Commit it?", "Nothing was changed: it is still open, and readers wait before it.", yes=yes
            )
        commit_transaction(client, info)
    if as_json:
        print_json({**json_value(info), "committed": True})
    console.print("committed: its markers are on all shown partitions")


def sweep(
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="The prefix of a producer or an outbox.")],
    bootstrap_server: Servers,
    command_config: Configured = None,
    decisions: Annotated[
        Path | None,
        typer.Option(help="A file with the prepared transactions to commit, one text a line.", exists=True),
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="The database of an outbox, as an SQLAlchemy URL.", envvar="SEMEL_DATABASE")
    ] = None,
    progress_topic: Annotated[str, typer.Option(help="The topic that keeps the progress of a query.")] = DEFAULT_TOPIC,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """End all prepared transactions of a prefix: commit the decided ones, abort the others.

    It is for a program that does not start any more. The decisions come from `--decisions` or `--database`. Without
    them the command only lists the transactions, and the status is 1 if there are any. About the parts of a query
    that writes by `format("semel")`, its progress decides.

    Stop the program first. The command fences a running outbox and a running query, but not a program that keeps its
    decisions in a file.
    """
    if decisions is not None and database is not None:
        raise typer.BadParameter("give --decisions or --database, not both")
    check_can_ask(as_json=as_json, asks=(decisions is not None or database is not None) and not yes)
    check_prefix(prefix)
    console = Console(soft_wrap=True, quiet=as_json)
    made = _read(decisions) if decisions is not None else []
    with connect(bootstrap_server, command_config) as client:
        prepared = [one for one in list_transactions(client) if one.name.prefix == prefix and one.prepared]
        _name(console, prefix, prepared)
        if any(one.name.kind is IdKind.TASK for one in prepared):
            check_can_ask(as_json=as_json, asks=not yes)
            console.print("The progress decides which parts of a batch are committed. A running query is fenced.")
            confirm(console, "End them?", "Nothing was changed.", yes=yes)
            _report(console, prepared, end_parts(client, prefix, progress_topic), as_json=as_json)
            return
    if decisions is None and database is None:
        if as_json:
            print_json({"prepared": [json_value(one) for one in prepared], "committed": [], "aborted": []})
        raise typer.Exit(int(bool(prepared)))
    if database is not None:
        console.print("The database says which are committed; the others are aborted. A running outbox is fenced.")
    else:
        console.print(f"The file commits {len(made)}; the others are aborted. Stop the program first, if it runs.")
    confirm(console, "End them?", "Nothing was changed.", yes=yes)
    with Cluster(properties_of(bootstrap_server, command_config)) as cluster:
        end: Callable[[], Recovered] = lambda: cluster.recover(prefix, lambda _: made)  # noqa: E731
        recovered = _recover_outbox(database, cluster, prefix) if database is not None else end()
    _report(console, prepared, recovered, as_json=as_json)


def _report(console: Console, prepared: Sequence[TransactionInfo], recovered: Recovered, *, as_json: bool) -> None:
    committed = [one.transactional_id for one in recovered.committed]
    if as_json:
        print_json(
            {
                "prepared": [json_value(one) for one in prepared],
                "committed": committed,
                "aborted": list(recovered.aborted),
            }
        )
    console.print(f"committed: {', '.join(committed) or 'none'}; aborted: {', '.join(recovered.aborted) or 'none'}")


def _name(console: Console, prefix: str, prepared: Sequence[TransactionInfo]) -> None:
    if not prepared:
        console.print(f"nothing is prepared under {prefix!r}, of what this login may describe")
    for one in prepared:
        show(console, one)
        console.print()
    units = [one for one in prepared if one.name.kind is IdKind.UNIT]
    if units:
        console.print(f"{', '.join(map(whose, units))}: decided in the program's store, if at all")


def _read(file: Path) -> list[Prepared]:
    """Read the prepared transactions of a file. Raise :class:`ConfigError` with the line that is none."""
    made = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            made.append(Prepared.parse(line))
        except ConfigError as error:
            raise ConfigError(f"line {number} of {file}: {error.message}", tag=error.tag) from None
    return made


def _recover_outbox(url: str, cluster: Cluster, prefix: str) -> Recovered:
    with needs_extras("--database", "database", "Nothing was changed."):
        from sqlalchemy import create_engine
        from sqlalchemy.exc import ArgumentError, NoSuchModuleError

        from semel.database import Outbox
    try:
        engine = create_engine(url)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the driver of --database is not installed ({error}). Nothing was changed. Install it, or name the one"
            " that the extra `database` brings: postgresql+psycopg://user@host/database.",
            tag="DATABASE_DRIVER",
        ) from None
    except (ArgumentError, NoSuchModuleError) as error:
        raise ConfigError(
            f"--database is no URL of SQLAlchemy ({type(error).__name__}). Nothing was changed. Give it as"
            " postgresql+psycopg://user@host/database.",
            tag="WRONG_VALUE",
        ) from None
    try:
        return Outbox(engine, cluster, prefix).recover()
    finally:
        engine.dispose()
