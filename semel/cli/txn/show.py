"""Output of ``semel txn`` about transactions: a table, or JSON."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.table import Table

from semel.admin.txn import NEVER_MS, TransactionInfo
from semel.cli.options import print_table
from semel.transaction.transactional_id import IdKind

__all__ = ["age", "json_value", "seconds", "show", "timeout", "whose"]


def show(console: Console, info: TransactionInfo) -> None:
    """Print one transaction, and the partitions that it holds back."""
    transaction = info.transaction
    facts = Table.grid(padding=(0, 2))
    facts.add_row("transactional id", whose(info))
    facts.add_row("state", transaction.state)
    facts.add_row("producer id, epoch", f"{transaction.producer_id}, {transaction.epoch}")
    if info.open:
        facts.add_row("age, timeout", f"{age(info)}, {timeout(info)}")
        shown = ", ".join(f"{topic}-{index}" for topic, index in transaction.partitions)
        facts.add_row("partitions", shown or "none yet, or none that this login may describe")
    if info.name.kind is IdKind.TASK:
        facts.add_row("decided", f"by the progress of {info.name.prefix}: its next start ends it")
    elif info.prepared:
        facts.add_row("decided", "not known here: the decision is in its program's store (a file, a database)")
    print_table(console, facts)
    if info.held:
        table = Table("partition", "its first offset", "records waiting", box=None, header_style="bold", padding=(0, 2))
        for held in info.held:
            first = "nothing written" if held.first_offset is None else str(held.first_offset)
            table.add_row(f"{held.topic}-{held.index}", first, f"{held.waiting:,}" if held.waiting else "none")
        print_table(console, table)


def whose(info: TransactionInfo) -> str:
    """Return the id. For a prepared transaction, add its prefix."""
    name = info.name
    return (
        name.prefix
        if name.kind is IdKind.OWNER
        else f"{info.transaction.transactional_id} ({name.kind.value} of {name.prefix})"
    )


def _age_s(info: TransactionInfo) -> float:
    return max(time.time() - info.transaction.started_ms / 1000, 0.0)


def age(info: TransactionInfo) -> str:
    """Return the time since it was opened, as text; empty if it is not open."""
    return seconds(_age_s(info) * 1000) if info.open and info.transaction.started_ms > 0 else ""


def timeout(info: TransactionInfo) -> str:
    """Return the time after which the brokers abort it, as text."""
    ms = info.transaction.timeout_ms
    return "never" if ms >= NEVER_MS else seconds(ms)


def seconds(ms: float) -> str:
    """Return a length of time, as text."""
    seconds = int(ms / 1000)
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"


def json_value(info: TransactionInfo) -> dict[str, Any]:
    """Return one transaction as JSON."""
    transaction = info.transaction
    return {
        "transactional_id": transaction.transactional_id,
        "prefix": info.name.prefix,
        "kind": info.name.kind.value,
        "state": transaction.state,
        "open": info.open,
        "prepared": info.prepared,
        "producer_id": transaction.producer_id,
        "epoch": transaction.epoch,
        "timeout_ms": transaction.timeout_ms,
        "age_s": round(_age_s(info), 3) if info.open else None,
        "partitions": [{"topic": topic, "partition": index} for topic, index in transaction.partitions],
        "held": [
            {"topic": h.topic, "partition": h.index, "first_offset": h.first_offset, "records_waiting": h.waiting}
            for h in info.held
        ],
        "records_waiting": info.waiting,
    }
