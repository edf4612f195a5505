"""Our errors, given back from what Spark makes of them."""

from __future__ import annotations

import re
import sys

import pytest

from semel.errors import AbortAndRetry, ConfigError, DataLoss, Fenced, SemelError
from semel.spark.errors import QueryStopped, error, first_sentence

#: The form in which Spark hands back what a foreachBatch callback raised (PySpark 4.3).
SPARK_TEXT = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the
user provided function in foreach batch sink. Reason: An exception was raised by the Python Proxy. \
Return Message: Traceback (most recent call last):
  File "clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
{line}
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
"""


@pytest.mark.parametrize(
    "raised", [Fenced("another owner"), AbortAndRetry("gone", tag="EXPIRED"), DataLoss("[odd] text: with: colons")]
)
def test_class_tag_and_message_come_back_from_the_text(raised: SemelError) -> None:
    line = f"{type(raised).__module__}.{type(raised).__name__}: {raised}"
    found = error(RuntimeError(SPARK_TEXT.format(line=line)))
    assert type(found) is type(raised)
    assert found is not None
    assert (found.tag, found.message) == (raised.tag, raised.message)


def test_a_message_of_several_lines_comes_back_whole() -> None:
    raised = DataLoss("it does not go on. Nothing was written.\n    It would miss no rows\n    (1) start anew")
    text = SPARK_TEXT.format(line=f"semel.errors.DataLoss: {raised}")
    assert getattr(error(RuntimeError(text)), "message", None) == raised.message


@pytest.mark.parametrize(
    "text",
    [
        "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: semel. Make sure the provider name is correct",
        "[PYTHON_DATA_SOURCE_ERROR] Failed to create: Traceback:\nImportError: [SEMEL_WRONG_PYTHON] Spark runs its",
    ],
)
def test_a_python_without_semel_is_named(text: str) -> None:
    found = error(RuntimeError(text))
    assert isinstance(found, ConfigError)
    assert found.tag == "WRONG_PYTHON"
    assert f"this one is {sys.executable}." in found.message
    assert error(RuntimeError(text.replace("semel", "delta").replace("SEMEL", "DELTA"))) is None


def test_our_own_error_is_itself() -> None:
    raised = Fenced("another owner")
    assert error(raised) is raised


@pytest.mark.parametrize(
    "text", ["", "java.lang.IllegalStateException: no", SPARK_TEXT.format(line="ValueError: [SEMEL_FENCED] not ours")]
)
def test_other_errors_are_not_ours(text: str) -> None:
    assert error(RuntimeError(text)) is None


def test_stop_is_what_spark_looks_for_and_short() -> None:
    spark_looks_for = (
        r"py4j\.protocol\.Py4JJavaError: An error occurred while"
        r" calling((.|\r\n|\r|\n)*)java\.lang\.InterruptedException"
    )
    text = str(QueryStopped())
    assert re.search(spark_looks_for, text)
    assert len(text) < 120
    assert error(QueryStopped()) is None, "a stop that somebody asked for is no failure"


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            ConfigError("the topic is not there. Nothing was written. Create it.", tag="UNKNOWN_TOPIC"),
            "[SEMEL_UNKNOWN_TOPIC] the topic is not there",
        ),
        (
            Exception(
                "Job aborted.\norg.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
                '  File "worker.py", line 1, in main\n    process()\nValueError: no price in row 7\n\n\tat org.x'
            ),
            "your code raised ValueError: no price in row 7",
        ),
        (OSError("disk full\nand more"), "OSError: disk full"),
    ],
)
def test_the_first_sentence(raised: Exception, said: str) -> None:
    assert first_sentence(raised) == said
