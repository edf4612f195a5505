"""Errors: tags, pickling, and the way back from the text that Spark leaves of them."""

import pickle

import pytest

from semel import errors
from semel.connect.worker.leader import IdTaken
from semel.errors import (
    AbortAndRetry,
    ConfigError,
    DataLoss,
    Fenced,
    Retriable,
    SemelError,
    Unsupported,
    from_text,
    named,
)
from semel.processes.launcher import JobFailed

CLASSES = [Retriable, AbortAndRetry, Fenced, ConfigError, DataLoss, Unsupported]
TAGS = ["TIMEOUT", "ABORT_AND_RETRY", "FENCED", "CONFIG", "DATA_LOSS", "UNSUPPORTED"]


def test_the_classes_are_all_of_them() -> None:
    there = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, SemelError)}
    assert there == {SemelError, *CLASSES}
    assert set(errors.__all__) == {cls.__name__ for cls in there} | {"from_text", "named"}


@pytest.mark.parametrize(("cls", "tag"), list(zip(CLASSES, TAGS, strict=True)))
def test_each_class_has_a_stable_tag_in_front_of_its_text(cls: type[SemelError], tag: str) -> None:
    assert str(cls("what happened.")) == f"[SEMEL_{tag}] what happened."
    assert str(cls("what happened.", tag="SPECIAL")) == "[SEMEL_SPECIAL] what happened."
    assert cls("what happened.").message == "what happened."


@pytest.mark.parametrize("cls", [SemelError, *CLASSES])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_each_class_survives_pickling_again_and_again(cls: type[SemelError], protocol: int) -> None:
    error = cls("two\nlines", tag="SPECIAL")
    for _ in range(3):
        error = pickle.loads(pickle.dumps(error, protocol))
    assert type(error) is cls
    assert (str(error), error.message, error.tag) == ("[SEMEL_SPECIAL] two\nlines", "two\nlines", "SPECIAL")
    assert type(pickle.loads(pickle.dumps(cls("x"), protocol))) is cls


def test_a_class_elsewhere_comes_back_as_the_nearest_one_here() -> None:
    """Else a process that asks the driver would get a ValueError, and fail for good."""
    for error, cls in ((IdTaken("x"), Retriable), (JobFailed("x"), Retriable), (Fenced("x"), Fenced)):
        back = named(error.kind, error.message, error.tag)
        assert (type(back), str(back)) == (cls, str(error))


def trace(*lines: str) -> str:
    """What stands in a Java exception's text when a Python callback failed."""
    head = [
        "org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query [id = 1c, runId = 2d]"
        " terminated with exception:",
        "py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call"
        " last):",
        '  File "/usr/lib/python3/py4j/clientserver.py", line 644, in _call_proxy',
    ]
    tail = [
        "\tat py4j.Protocol.getReturnValue(Protocol.java:476)",
        "\tat java.base/java.lang.Thread.run(Thread.java:840)",
    ]
    return "\n".join([*head, *lines, "", *tail])


@pytest.mark.parametrize("cls", CLASSES)
def test_the_class_comes_back_from_a_java_stack_trace(cls: type[SemelError]) -> None:
    raised = cls("the prefix 'orders' has another owner. Nothing was committed. Stop one of them.", tag="SPECIAL_4")
    back = from_text(trace(f"{cls.__module__}.{cls.__qualname__}: {raised}"))
    assert type(back) is cls
    assert (str(back), back.tag) == (str(raised), "SPECIAL_4")


def test_of_several_the_one_raised_last_counts() -> None:
    back = from_text(
        trace(
            "semel.errors.Retriable: [SEMEL_CONNECTION] first",
            "During handling of the above exception, another exception occurred:",
            "semel.errors.AbortAndRetry: [SEMEL_EXPIRED] then",
        )
    )
    assert isinstance(back, AbortAndRetry)
    assert back.tag == "EXPIRED"


@pytest.mark.parametrize(
    "text",
    [
        "",
        trace("ValueError: [SEMEL_FENCED] not ours"),
        trace("semel.errors.Unheard: [SEMEL_FENCED] of no class that there is"),
        "see semel.errors.Fenced in the documentation",
    ],
)
def test_text_without_an_error_of_ours_gives_nothing(text: str) -> None:
    assert from_text(text) is None
