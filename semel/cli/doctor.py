"""``semel doctor``: everything that would be refused here, and the reasons, before a query is started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from semel.admin.check import Check, Result
from semel.admin.doctor import QueryPlan, run_checks
from semel.cli.help import application, examples
from semel.cli.local_checks import machine
from semel.cli.options import (
    AsJson,
    Configured,
    ProgressTopic,
    Servers,
    connect,
    print_error,
    print_json,
)
from semel.errors import SemelError
from semel.transaction.progress.topic import DEFAULT_TOPIC

__all__ = ["app"]

app = application()
#: Of the longest verdict, with a gap.
_WIDTH = max(len(result.value) for result in Result) + 2
_STYLES = {Result.OK: "green", Result.WARNING: "yellow", Result.REFUSED: "bold red", Result.UNCHECKED: "dim"}


@app.command(
    epilog=examples(
        "semel doctor --bootstrap-server localhost:9092",
        "semel doctor --bootstrap-server broker:9093 \\\n    --command-config client.properties \\\n"
        "    --source orders --topic totals --prefix totals-query",
    )
)
def look(
    bootstrap_server: Servers,
    command_config: Configured = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="A topic that the query writes. Repeat it for more.")
    ] = None,
    source: Annotated[
        list[str] | None, typer.Option("--source", help="A topic that the query reads. Repeat it for more.")
    ] = None,
    group: Annotated[str | None, typer.Option("--group", help="The kafka.group.id of the query.")] = None,
    prefix: Annotated[
        str | None,
        typer.Option("--prefix", help="The transactionalIdPrefix of the query. Its progress is checked too."),
    ] = None,
    progress_topic: ProgressTopic = DEFAULT_TOPIC,
    as_json: AsJson = False,
) -> None:
    """Check this machine and the cluster before you start a query.

    The command shows what would be refused, and what to do. It writes nothing and fences no owner. Give the query's own
    properties as `--command-config`: the check then runs with the query's login.

    The status is 0 if nothing would be refused, 1 if something would, and 2 if no broker answered.
    """
    asked = QueryPlan(topic or (), source or (), group, prefix, progress_topic)
    findings = list(machine())
    silence: SemelError | None = None
    try:
        with connect(bootstrap_server, command_config) as client:
            findings += run_checks(client, asked)
    except SemelError as error:
        silence = error
    refused = any(finding.verdict is Result.REFUSED for finding in findings)
    if as_json:
        print_json(_value(findings, silence, refused=refused))
    else:
        _show(Console(), findings, silence, refused=refused)
    if silence is not None:
        raise typer.Exit(2)
    if refused:
        raise typer.Exit(1)


def _show(console: Console, findings: Sequence[Check], silence: SemelError | None, *, refused: bool) -> None:
    for finding in findings:
        verdict = (f"{finding.verdict.value:<{_WIDTH}}", _STYLES[finding.verdict])
        if finding.verdict is Result.OK:
            line = Text.assemble(verdict, finding.subject, ": ", finding.found)
            console.print(line, no_wrap=True, overflow="ellipsis")
        else:
            console.print(Text.assemble(verdict, (finding.subject, "bold")))
            for text in filter(None, (finding.found, finding.advice)):
                console.print(Padding(Text(text, overflow="fold"), (0, 0, 0, _WIDTH), expand=False))
    console.print()
    if silence is not None:
        print_error(silence)
    elif refused:
        what = [finding.subject for finding in findings if finding.verdict is Result.REFUSED]
        console.print(f"[bold red]{len(what)} would be refused:[/] {', '.join(what)}", soft_wrap=True)
    else:
        console.print("Nothing would be refused, as far as it was checked.")


def _value(findings: Sequence[Check], silence: SemelError | None, *, refused: bool) -> dict[str, Any]:
    return {
        "refused": refused,
        "cluster_answered": silence is None,
        "error": str(silence) if silence is not None else None,
        "findings": [
            {
                "subject": one.subject,
                "found": one.found,
                "verdict": one.verdict.value.replace(" ", "_"),
                "advice": one.advice,
            }
            for one in findings
        ],
    }
