"""What a connector's own code may do to the driver: it is waited for so long, and whatever it raises is its own."""

from __future__ import annotations

import threading
import traceback

import pytest

from semel.connect.herder.connector_calls import ask_connector, within
from semel.errors import ConfigError, Unsupported


def test_what_blocks_is_given_up_with_its_stack_and_its_late_answer_is_not_used() -> None:
    let_go, ended = threading.Event(), threading.Event()

    def stands_here() -> str:
        let_go.wait()
        ended.set()
        return "too late"

    with pytest.raises(ConfigError, match=r"CONNECTOR_BLOCKED.*tasks did not return within 50 ms") as found:
        within(50, "one", lambda: ask_connector("one", "tasks", stands_here))
    trace = "".join(traceback.format_exception(found.value))
    assert "stands_here" in trace
    assert "let_go.wait()" in trace
    let_go.set()
    assert ended.wait(30)
    assert within(30_000, "one", lambda: ask_connector("one", "tasks", lambda: "in time")) == "in time"


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), LookupError("gone"), GeneratorExit()])
def test_whatever_it_raises_is_an_error_of_the_connector(raised: BaseException) -> None:
    def ask() -> None:
        raise raised

    with pytest.raises(ConfigError, match=rf"connector 'one': tasks raised {type(raised).__name__}") as found:
        within(30_000, "one", lambda: ask_connector("one", "tasks", ask))
    assert found.value.__cause__ is raised


def test_an_error_of_semel_stays_what_it_is() -> None:
    def ask() -> None:
        raise Unsupported("not there yet. Nothing was read. Remove it.", tag="NOT_YET")

    with pytest.raises(Unsupported, match="not there yet"):
        within(30_000, "one", lambda: ask_connector("one", "tasks", ask))
