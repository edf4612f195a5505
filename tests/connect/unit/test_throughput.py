"""Records a second, from what tasks tell."""

from semel.connect.herder.throughput import Throughput


class _Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def _shown(throughput: Throughput) -> tuple[float, float]:
    shown = throughput.shown({"lines": None})["lines"][0]
    return shown["records"], shown["records_per_second"]


def test_a_rate_is_taken_over_the_last_seconds_and_ends_with_the_messages() -> None:
    clock = _Clock()
    throughput = Throughput(clock)
    for records in (0, 100, 200, 300, 300, 300, 300, 300, 300, 300):
        throughput.heard("lines-0", {"records": records})
        clock.now += 1
    assert _shown(throughput) == (300, 0.0)
    throughput.heard("lines-0", {"records": 400})
    assert _shown(throughput) == (400, 20.0)
    clock.now += 10
    assert _shown(throughput) == (400, 0.0)


def test_another_process_counts_from_the_beginning() -> None:
    clock = _Clock()
    throughput = Throughput(clock)
    throughput.heard("lines-0", {"records": 5000})
    clock.now += 1
    throughput.heard("lines-0", {"records": 10})
    clock.now += 1
    throughput.heard("lines-0", {"records": 40})
    assert _shown(throughput) == (40, 30.0)


def test_an_open_transaction_grows_older_while_its_task_tells_nothing() -> None:
    clock = _Clock()
    throughput = Throughput(clock)
    for open_ms, open_seconds in ((None, 0.0), (500.0, 3.5), (None, 0.0)):
        throughput.heard("lines-0", {"records": 1, "open_ms": open_ms})
        clock.now += 3
        assert throughput.shown({"lines": None})["lines"][0]["open_seconds"] == open_seconds


def test_a_deleted_connector_is_forgotten() -> None:
    throughput = Throughput()
    throughput.heard("lines-0", {"records": 1})
    assert throughput.shown({}) == {}
    assert throughput.shown({"lines": None}) == {}
