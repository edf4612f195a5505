"""Applications of streams on a real broker: what is refused at the start, and the command line."""

from __future__ import annotations

import re
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from prometheus_client import CollectorRegistry

from semel.config import ClientConfig
from semel.errors import ConfigError, DataLoss
from semel.streams import App, windows
from semel.streams.lookup import look_up
from semel.streams.metrics import METRICS, StreamsCollector
from semel.streams.state.backend import Position
from semel.streams.state.rocks import Rocks
from semel.streams.worker.worker import Worker
from semel.testing.records import read
from semel.wire.client import Client
from tests.streams.support.applications import fill, names, values
from tests.support.topics import create
from tests.support.waiting import wait_for


@pytest.fixture
def conf(servers: str, tmp_path: Path) -> dict[str, object]:
    return {"bootstrap.servers": servers, "state.dir": str(tmp_path / "state"), "commit.interval.ms": 50}


@pytest.fixture
def name() -> str:
    return f"app-{next(names)}"


def work(app: App, until: Any) -> None:
    """Run a worker until this is so."""
    with Worker(app) as worker:

        def step() -> object:
            return not worker.step() and until()

        wait_for(step, "what was to be written", 60)


def counting(name: str, conf: dict[str, object], source: str, target: str, store: str = "counts") -> App:
    app = App(name, **conf)
    app.stream(source, value="string").group_by("value").count(store).to_stream().to(target)
    return app


def test_a_window_a_table_and_a_join_on_a_broker(servers: str, name: str, conf: dict[str, object]) -> None:
    users, clicks, out = (create(servers, f"{name}-{topic}", 2) for topic in ("users", "clicks", "out"))
    per_minute = create(servers, f"{name}-per-minute", 2)
    app = App(name, **conf)
    table = app.table(users, key="string", value="json", name="users")
    stream = app.stream(clicks, key="string", value="string")
    stream.left_join(table, lambda page, user: [user and user["name"], page]).to(out)
    stream.group_by_key().windowed(windows.tumbling("1 min")).count("per-minute").to_stream().map_batches(
        lambda batch: batch.drop_columns(["window_start", "window_end"])
    ).to(per_minute)
    fill(servers, users, ("1", '{"name":"Ann"}', 0), ("2", '{"name":"Bob"}', 0))
    work(app, lambda: len(list(Path(str(conf["state.dir"])).rglob("*.log"))) >= 4)
    base = 1_700_000_040_000
    fill(servers, clicks, ("1", "home", base), ("3", "home", base + 5), ("1", "shop", base + 59_999))
    fill(servers, clicks, ("1", "shop", base + 60_000), ("1", "late", base + 10))
    work(app, lambda: len(values(servers, out)) == 5)
    found = values(servers, out)
    assert ("1", '["Ann","home"]') in found
    assert ("3", '[null,"home"]') in found
    assert ("1", "2") in values(servers, per_minute)
    assert ("1", "1") in values(servers, per_minute)[-3:]
    with Client(app.settings.client) as client:
        looked_up = list(look_up(client, app.topology, "per-minute", "1"))
    assert [(row["key"], row["window_start"], row["value"]) for row in looked_up] == [
        ("1", base, 2),
        ("1", base + 60_000, 1),
    ]


def test_a_running_worker_shows_its_counts(servers: str, name: str, conf: dict[str, object]) -> None:
    source, out = (create(servers, f"{name}-{topic}", 1) for topic in ("source", "out"))
    app = counting(name, conf, source, out)
    registry = CollectorRegistry()
    registry.register(StreamsCollector(name, app.counts, lambda: app.dropped_records))

    def sample(metric: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"kafka_streams_stream_{metric}", {"application_id": name, **labels})

    assert sample("thread_commit_total") == 0
    fill(servers, source, ("1", "a", 0), ("2", "b", 0), (None, "a", 0))
    work(app, lambda: values(servers, out))
    assert sample("task_process_total", task_id="0_0") == 3
    assert (sample("thread_commit_total") or 0) >= 1
    opened = sample("thread_task_created_total")
    assert opened == sample("thread_task_closed_total") == 2
    assert sample("thread_restore_total") == 0
    shutil.rmtree(str(conf["state.dir"]))
    fill(servers, source, ("1", "a", 0))
    work(app, lambda: ("a", "3") in values(servers, out))
    assert (sample("thread_restore_total") or 0) >= 2
    page = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
    assert [metric.name for metric in METRICS if f"| `{metric.name}` | {metric.kind.value} |" not in page] == []


def busy(seconds: float) -> str:
    """Work for so long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return "y"


def test_commits_and_polls_come_between_slow_records(
    servers: str, name: str, conf: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    """All rows are one answer of the broker, and take longer than the poll interval and the transaction's timeout."""
    source, out = create(servers, f"{name}-in"), create(servers, f"{name}-out")
    fill(servers, source, ("first", "x", 0))
    app = App(
        name,
        **{
            **conf,
            **dict.fromkeys(("max.poll.interval.ms", "transaction.timeout.ms"), 2_000),
            "commit.interval.ms": 300,
        },
    )
    app.stream(source, key="string").map_values(lambda record: busy(0.003)).to(out)
    stands, done = [0], 0
    with Worker(app) as worker:

        def step() -> bool:
            worker.step()
            stands.append(worker._session.committed.get((source, 0), 0))
            return stands[-1] > done

        wait_for(step, "the first row", 60)  # the first transaction of a broker takes longer
        caplog.clear()
        fill(servers, source, *((f"{number}", "x", number) for number in range(900)))
        stands, done = [0], 900
        wait_for(step, "the rows", 60)
    assert stands == sorted(stands)  # nothing was handed out again
    assert len(set(stands)) >= 5
    assert len(values(servers, out)) == 901
    assert "rows took" not in caplog.text


def test_a_worker_that_is_too_slow_says_so_and_takes_fewer_rows(
    servers: str, name: str, conf: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    source, out = create(servers, f"{name}-in"), create(servers, f"{name}-out")
    fill(servers, source, *((f"{number}", "x", number) for number in range(20)))
    app = App(name, **{**conf, "max.poll.interval.ms": 1_000})
    app.stream(source, key="string").map_values(lambda record: busy(0.1)).to(out)
    work(app, lambda: len(values(servers, out)) == 20)
    said = [one.getMessage() for one in caplog.records if "rows took" in one.getMessage()]
    told = r"\d+ rows took \d{4,} ms \(\d+\.\d ms a row\), and max.poll.interval.ms is 1000"
    assert said
    assert all(re.search(told, one) for one in said), "a busy machine is slower, and says it more than once"


def test_state_without_offsets_is_not_counted_again(servers: str, name: str, conf: dict[str, object]) -> None:
    """As after the retention of offsets: from the earliest record on, all would be counted once more."""
    source, out = create(servers, f"{name}-in", 2), create(servers, f"{name}-out")
    fill(servers, source, (None, "a", 1), (None, "a", 2))
    work(counting(name, conf, source, out), lambda: values(servers, out))
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_consumer_groups([name])[name].result(30)
    with pytest.raises(DataLoss, match=r"OFFSETS_GONE.*would be counted twice"):
        Worker(counting(name, conf, source, out))


def test_a_changelog_that_was_made_again_is_not_begun_at_0(servers: str, name: str, conf: dict[str, object]) -> None:
    source, out = create(servers, f"{name}-in"), create(servers, f"{name}-out")
    fill(servers, source, (None, "a", 1), (None, "a", 2))
    work(counting(name, conf, source, out), lambda: values(servers, out))
    changelog = f"{name}-counts-changelog"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([changelog])[changelog].result(30)
    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
        wait_for(lambda: not client.existing({changelog}), "its deletion")
    create(servers, changelog, cleanup_policy="compact")
    with pytest.raises(DataLoss, match=r"CHANGELOG_GONE.*it would be counted from 0"):
        work(counting(name, conf, source, out), lambda: False)


def test_a_store_of_another_aggregation_is_refused(servers: str, name: str, conf: dict[str, object]) -> None:
    source, out = create(servers, f"{name}-in", 1), create(servers, f"{name}-out")
    fill(servers, source, (None, "a", 1))
    work(counting(name, conf, source, out), lambda: values(servers, out))
    app = App(name, **conf)
    longest = app.stream(source, value="string").group_by("value").reduce(max, "counts")
    longest.to_stream().to(out)
    with pytest.raises(ConfigError, match=r"OTHER_STORE.*holds a count by key \(string\), and .* a function made"):
        work(app, lambda: False)
    work(counting(name, conf, source, out), lambda: True)  # its folder is closed and as it was


def test_a_store_without_a_position_is_not_believed(
    servers: str, name: str, conf: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    source, out = create(servers, f"{name}-in", 1), create(servers, f"{name}-out")
    fill(servers, source, (None, "a", 1))
    work(counting(name, conf, source, out), lambda: values(servers, out))
    (folder,) = Path(str(conf["state.dir"])).glob("*/*/rocksdb/counts")
    shutil.rmtree(folder)
    planted = Rocks(folder)
    planted.write([(key, bytes(8) + (7).to_bytes(8, "big")) for key in (b"a", b"b")], [], None)
    planted.close()
    fill(servers, source, (None, "a", 2), (None, "b", 2))
    work(counting(name, conf, source, out), lambda: ("b", "1") in values(servers, out))
    assert values(servers, out) == [("a", "1"), ("a", "2"), ("b", "1")]
    assert "'counts' is thrown away, and restored" in caplog.text
    assert "it has entries, and no position" in caplog.text


def test_the_folder_of_a_task_that_has_moved_away_is_deleted(servers: str, name: str, conf: dict[str, object]) -> None:
    source, out = create(servers, f"{name}-in", 1), create(servers, f"{name}-out")
    fill(servers, source, (None, "a", 1))
    folder = Path(str(conf["state.dir"])) / name
    (folder / "notes").mkdir(parents=True)
    Rocks(folder / "1_7" / "rocksdb" / "counts").close()
    work(counting(name, {**conf, "state.cleanup.delay.ms": 0}, source, out), lambda: not (folder / "1_7").exists())
    assert {path.name for path in folder.iterdir()} == {"1_0", "notes"}


@pytest.mark.exhaustive  # its sample is the standby that takes over
def test_s10_a_standby_repairs_what_lies_in_its_folder(
    servers: str, name: str, conf: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    """A folder with a bogus position, as of another time. Its copy is right, and counts on when it takes over."""
    source, out = create(servers, f"{name}-in", 1), create(servers, f"{name}-out")
    folders = [Path(f"{conf['state.dir']}-{number}") for number in range(2)]
    planted = Rocks(folders[1] / name / "1_0" / "rocksdb" / "counts")
    planted.write([(b"a", bytes(8) + (99).to_bytes(8, "big"))], [], Position("another", 1_000_000, 0, 0))
    planted.close()
    more = {"num.standby.replicas": 1, "session.timeout.ms": 6_000}
    one, two = (counting(name, {**conf, **more, "state.dir": str(folder)}, source, out) for folder in folders)
    running = [threading.Thread(target=app.run) for app in (one, two)]
    fill(servers, source, (None, "a", 1))
    try:
        running[0].start()
        wait_for(lambda: values(servers, out), "the first count")
        running[1].start()
        fill(servers, source, (None, "b", 1))
        wait_for(lambda: two.counts.updated + two.counts.restored >= 2, "the copy")
        one.stop()
        running[0].join()
        fill(servers, source, (None, "a", 2))
        wait_for(lambda: ("a", "2") in values(servers, out), "the next count")
    finally:
        for app, thread in zip((one, two), running, strict=True):
            app.stop()
            if thread.is_alive():
                thread.join()
    assert values(servers, out) == [("a", "1"), ("a", "2"), ("b", "1")]
    assert "'counts' is thrown away, and restored" in caplog.text


def test_a_changelog_that_deletes_with_time_is_refused(servers: str, name: str, conf: dict[str, object]) -> None:
    source, out = create(servers, f"{name}-in", 2), create(servers, f"{name}-out")
    create(servers, f"{name}-counts-changelog", 2, cleanup_policy="delete")
    with pytest.raises(ConfigError, match=r"cleanup.policy=delete: records are lost with time"):
        Worker(counting(name, conf, source, out))


def test_rows_between_sub_topologies_are_read_from_their_beginning(
    servers: str, name: str, conf: dict[str, object]
) -> None:
    """Whatever ``auto.offset.reset`` says: another worker may have written them before this one looks."""
    source, out = create(servers, f"{name}-in", 2), create(servers, f"{name}-out")
    app = counting(name, {**conf, "auto.offset.reset": "latest"}, source, out)
    with Worker(app) as worker:
        (between,) = worker._inputs.plan.repartition
        fill(servers, between, ("a", "a", 1))
        wait_for(lambda: not worker.step() and values(servers, out), "the count", 60)
    assert values(servers, out) == [("a", "1")]


def test_what_does_not_fit_is_refused_before_anything_is_read(servers: str, name: str, conf: dict[str, object]) -> None:
    two, three, out = (
        create(servers, f"{name}-two", 2),
        create(servers, f"{name}-three", 3),
        create(servers, f"{name}-o"),
    )
    app = App(name, **conf)
    app.stream(two).join(app.table(three), lambda one, other: 1).to(out)
    with pytest.raises(ConfigError, match="equally many partitions"):
        Worker(app)
    app = App(name, **conf)
    app.stream("nowhere").to(out)
    with pytest.raises(ConfigError, match="nowhere does not exist"):
        Worker(app)

    fill(servers, two, (None, "a", 1))
    work(counting(name, conf, two, out), lambda: values(servers, out))
    with pytest.raises(ConfigError, match="in use by another topology"):
        Worker(counting(name, conf, two, out, "others"))
    with pytest.raises(ConfigError, match="in use by another topology"):
        Worker(counting(name, conf, three, out))
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([f"{name}-counts-changelog"])[f"{name}-counts-changelog"].result(30)
    wait_for(lambda: f"{name}-counts-changelog" not in admin.list_topics(timeout=10).topics, "it is deleted")
    with pytest.raises(DataLoss, match="has run before"):
        Worker(counting(name, conf, two, out))
    create(servers, f"{name}-counts-changelog", 7)
    with pytest.raises(ConfigError, match="7 partitions, and must have exactly 2"):
        Worker(counting(name, conf, two, out))


def test_partitions_that_are_added_stop_an_application_with_state(
    servers: str, name: str, conf: dict[str, object]
) -> None:
    """Keys would move away from their state. Without state and repartition topics they are read like the others."""
    conf = {**conf, "metadata.max.age.ms": 500}
    source, out, copied = create(servers, f"{name}-in", 2), create(servers, f"{name}-out"), create(servers, f"{name}-c")
    copying = App(f"{name}-copy", **{**conf, "state.dir": f"{conf['state.dir']}-copy"})
    copying.stream(source).to(copied)
    fill(servers, source, (None, "a", 1))
    with Worker(counting(name, conf, source, out)) as worker, Worker(copying) as copy:
        wait_for(lambda: not worker.step() and values(servers, out), "the count", 60)
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_partitions([NewPartitions(source, 3)])[source].result(30)
        text = rf"INTERNAL_TOPIC.*topic {source} has 3 partitions now, and had 2 .* was made with 2, and 3 are needed"
        with pytest.raises(ConfigError, match=text):
            wait_for(worker.step, "the new partition", 60)
        producer = Producer({"bootstrap.servers": servers})
        producer.produce(source, "b", partition=2)
        assert producer.flush(30) == 0
        wait_for(lambda: not copy.step() and len(read(servers, [copied], {})) == 2, "the rows of the new partition", 60)
    with pytest.raises(ConfigError, match=rf"has 2 partitions, and must have exactly 3.*{source} has 3"):
        Worker(counting(name, conf, source, out))


def test_records_of_repartition_topics_are_deleted_when_they_are_read(
    servers: str, name: str, conf: dict[str, object]
) -> None:
    source, out = create(servers, f"{name}-in"), create(servers, f"{name}-out")
    fill(servers, source, (None, "a", 1), (None, "b", 1))
    with Worker(counting(name, conf, source, out)) as worker:
        wait_for(lambda: (worker.step(), len(values(servers, out)) == 2)[1], "the counts", 60)
        assert len(read(servers, [f"{name}-counts-repartition"], {})) == 2
        worker.commit()
        worker.purge()
        assert len(read(servers, [f"{name}-counts-repartition"], {})) == 0
        fill(servers, source, (None, "b", 1))
        wait_for(lambda: (worker.step(), ("b", "2") in values(servers, out))[1], "the next count", 60)


def test_dead_letters_have_the_headers_of_their_records(servers: str, name: str, conf: dict[str, object]) -> None:
    source, out, letters = (create(servers, f"{name}-{topic}", 1) for topic in ("in", "out", "letters"))
    handlers = {f"{kind}.exception.handler": "continue" for kind in ("deserialization", "processing", "production")}
    app = App(name, **conf, **handlers, **{"errors.dead.letter.queue.topic.name": letters})
    stream = app.stream(source, key="string", value="json")
    stream.map_values(lambda record: 10 // record.value if record.value < 7 else "x" * 2_000_000).to(out)
    stream.map_values(lambda record: -1).to(letters)
    producer = Producer({"bootstrap.servers": servers})
    for value in ("2", "{", "0", "7"):
        producer.produce(source, value, key=f"k{value}", headers={"trace": value.encode()}, timestamp=5)
    assert producer.flush(60) == 0
    work(app, lambda: len(values(servers, letters)) == 6)
    assert values(servers, out) == [("k2", "5")]
    consumer = Consumer({"bootstrap.servers": servers, "group.id": name})
    consumer.assign([TopicPartition(letters, 0, OFFSET_BEGINNING)])
    found = {}
    for message in consumer.consume(6, 60):
        headers = dict(message.headers() or ())
        said = [headers.get(f"__streams.errors.{one}") for one in ("exception", "topic", "offset")]
        found[message.value(), headers.get("trace")] = said
    consumer.close()
    assert found == {
        **{(b"-1", trace): [None, None, None] for trace in (b"2", b"0", b"7")},
        (b"{", b"{"): [b"json.decoder.JSONDecodeError", source.encode(), b"1"],
        (b"0", b"0"): [b"builtins.ZeroDivisionError", source.encode(), b"2"],
        (b"7", b"7"): [b"semel.errors.ConfigError", source.encode(), b"3"],
    }
    missing = App(f"{name}-2", **conf, **{"errors.dead.letter.queue.topic.name": "letters-that-are-not-there"})
    missing.stream(source).to(out)
    with pytest.raises(ConfigError, match="letters-that-are-not-there"):
        Worker(missing)
