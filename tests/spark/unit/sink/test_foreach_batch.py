"""What a sink says of Spark's settings before its first batch, and how often it writes one."""

from __future__ import annotations

import pytest

from semel.errors import AbortAndRetry, ConfigError, SemelError
from semel.spark.jvm.values import Settings
from semel.spark.sink.foreach_batch import note_slow_sockets, retried


@pytest.mark.parametrize("domain_sockets", [False, True, None])
def test_slow_sockets_are_noted(caplog: pytest.LogCaptureFixture, domain_sockets: bool | None) -> None:
    caplog.set_level("INFO", "semel.spark")
    note_slow_sockets(Settings(1, True, False, 1000, 1000, domain_sockets))
    assert ("spark.python.unix.domain.socket.enabled" in caplog.text) is (domain_sockets is False)


class Write:
    """Fails so often, with this error."""

    def __init__(self, failures: int, error: SemelError) -> None:
        self.left, self.error, self.asked = failures, error, 0

    def __call__(self) -> str:
        self.left -= 1
        if self.left >= 0:
            raise self.error
        return "written"

    def again(self, failed: SemelError) -> bool:
        self.asked += 1
        return failed.tag != "UNPROVEN"


def test_a_batch_is_written_again_up_to_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    write = Write(2, AbortAndRetry("an executor was lost", tag="JOB_LOST"))
    assert retried(write, 3, "batch 7", write.again) == ("written", 2)
    assert "batch 7 is run again (2 of 3)" in caplog.text
    write = Write(2, AbortAndRetry("an executor was lost", tag="JOB_LOST"))
    with pytest.raises(AbortAndRetry, match="JOB_LOST"):
        retried(write, 1, "batch 7", write.again)
    assert write.asked == 1


@pytest.mark.parametrize("error", [AbortAndRetry("torn", tag="UNPROVEN"), ConfigError("wrong")])
def test_what_another_try_cannot_help_is_raised_at_once(error: SemelError) -> None:
    write = Write(1, error)
    with pytest.raises(type(error)):
        retried(write, 3, "batch 7", write.again)
    assert write.left == 0
