"""The table of error tags: what happened, what it means for the data, and what to do.

``python -m semel.error_tags > docs/errors.md`` makes the page from it. Errors themselves do not read it: their messages
are written where they are raised.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from semel.wire import error_codes
from semel.wire.error_codes import Action

__all__ = ["Row", "page", "table"]

_HEAD = """\
# Errors

Every error of semel begins with a tag, such as `[SEMEL_FENCED]`. Search this page for it. The text of the error has the
details: names, offsets and commands. With `delivery=at_least_once` there is no transaction: rows of a failed batch may
be visible, and they come again.

| Class | What to do |
|---|---|
| `Retriable` | A broker did not answer in time: try again later. \
**Not with `COMMITTED` or `COMMIT_PENDING`: that work is committed. \
With `OUTCOME_UNKNOWN` start again, so that semel finds out; do not send the rows again by hand.** |
| `AbortAndRetry` | Run the same work again: the transaction was aborted. The Spark sink does that by itself. |
| `Fenced` | Stop: another owner has taken over. |
| `ConfigError` | Change the options, the data or the rights. |
| `DataLoss` | Stop, and decide: rows are missing or doubled, or that is not known. |
| `Unsupported` | Use another version of the broker, of Spark or of semel. |

## Tags of semel

"""

_CODES = """
## Codes of Kafka

Where a broker refuses a request for good, the tag is Kafka's name of the error code. The text says what it means for
the data.

"""

_DO = {
    Action.RETRY: "Try again later. If it stays, check that all brokers run and all replicas are in sync.",
    Action.REFRESH: "Try again later. Check that all brokers run.",
    Action.COORDINATOR: "Try again later. Check that all brokers run.",
    Action.SETTLE: "Make sure that no other program uses this prefix. Then start again: semel asks how the transaction"
    " ended.",
    Action.ABORT: "Run the same work again. The sink does that by itself.",
    Action.FENCED: "Stop one of the two owners.",
    Action.CONFIG: "The text names what was refused. Correct that option, or grant the missing right"
    " ([security](security.md)).",
    Action.DATA_LOSS: "Stop, and find out what happened to these records.",
    Action.UNSUPPORTED: "Use a broker or a setting that supports it.",
}


@dataclass(frozen=True)
class Row:
    """The meaning of one tag."""

    happened: str
    data: str
    remedy: str


def table() -> dict[str, Row]:
    """Return the row of each tag of semel, in the order of the file."""
    text = files("semel").joinpath("error_tags.toml").read_text("utf-8")
    return {tag: Row(**row) for tag, row in tomllib.loads(text).items()}


def page() -> str:
    """Return the text of docs/errors.md."""
    return _HEAD + "".join(_rows()) + _CODES + "".join(_code_rows())


def _rows() -> Iterator[str]:
    yield "| Tag | What happened | Your data | What to do |\n|---|---|---|---|\n"
    for tag, row in table().items():
        yield f"| `SEMEL_{tag}` | {row.happened} | {row.data} | {row.remedy} |\n"


def _code_rows() -> Iterator[str]:
    yield "| Tag | What to do |\n|---|---|\n"
    own = table()
    for code in error_codes.codes():
        name = error_codes.name(code)
        if name not in own:
            advice = error_codes.advice(code)
            remedy = advice[0].upper() + advice[1:] if advice else _DO[error_codes.of("", code)]
            yield f"| `SEMEL_{name}` ({code}) | {remedy} |\n"


if __name__ == "__main__":
    print(page(), end="")
