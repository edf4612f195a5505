"""``FileSink`` on S3: a chain of files that no late task can fork. The store is moto's server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest
from deltalake import DeltaTable

from semel.connect import SinkContext
from semel.connect.connectors.sinks.bucket import BucketPlace, _BucketFiles
from semel.connect.connectors.sinks.delta import DeltaSinkTask
from semel.connect.connectors.sinks.files import FileSink, FileSinkTask
from semel.errors import ConfigError, Fenced, Retriable
from tests.connect.support.careless_store import careless_store
from tests.connect.support.delta_tables import config as delta_config
from tests.connect.support.sink_batches import PARTITION
from tests.connect.unit.test_file_sink import config, rows
from tests.support.s3 import ObjectStore, object_store

_numbers = count(1)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("s3")) as made:
        yield made


class Bucket:
    """A prefix of the bucket, and a client of its own."""

    def __init__(self, store: ObjectStore) -> None:
        self.prefix, self.folder = f"lake-{next(_numbers)}", "topics/orders/partition=0"
        keys = store.keys()
        self.given = {"store.url": store.endpoint, **keys}
        login = {"aws_access_key_id": keys["aws.access.key.id"], "aws_secret_access_key": keys["aws.secret.access.key"]}
        self.client = boto3.client("s3", endpoint_url=store.endpoint, region_name=keys["s3.region"], **login)
        self.bucket = store.folder.partition("://")[2]
        self.path = f"s3://{self.bucket}/{self.prefix}"

    def config(self, **more: Any) -> dict[str, Any]:
        return {**config(self.path, **more), **self.given}

    def task(self, context: SinkContext | None = None, **more: Any) -> FileSinkTask:
        made = FileSinkTask()
        made.start(self.config(**more), context or SinkContext())
        made.open([PARTITION])
        return made

    def names(self) -> list[str]:
        found = self.client.list_objects_v2(Bucket=self.bucket, Prefix=f"{self.prefix}/{self.folder}/")
        return [one["Key"].rpartition("/")[2] for one in found.get("Contents", ())]

    def remove(self, name: str) -> None:
        self.client.delete_object(Bucket=self.bucket, Key=f"{self.prefix}/{self.folder}/{name}")

    def lines(self) -> list[str]:
        keys = (f"{self.prefix}/{self.folder}/{name}" for name in self.names())
        texts = (self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read().decode() for key in keys)
        return [json.loads(line)["name"] for text in texts for line in text.splitlines()]


@pytest.fixture
def bucket(store: ObjectStore) -> Bucket:
    return Bucket(store)


def names(first: int, last: int) -> list[str]:
    return [f"n{n}" for n in range(first, last)]


def test_a_task_resumes_after_the_last_file(bucket: Bucket) -> None:
    task = bucket.task()
    task.put(rows(4))
    task.put(rows(3, 4))
    assert bucket.names() == ["orders+0+0000000000.json", "orders+0+0000000003.json"]
    assert task.pre_commit({PARTITION: 7}) == {PARTITION: 6}
    context = SinkContext(positions={PARTITION: 0})
    later = bucket.task(context)
    assert context.offsets == {PARTITION: 6}
    later.put(rows(3, 6))
    assert bucket.lines() == names(0, 9)
    bucket.remove("orders+0+0000000000.json")
    context = SinkContext(positions={PARTITION: 9})
    bucket.task(context)
    assert context.offsets == {}


def test_a_task_that_is_late_is_fenced(bucket: Bucket) -> None:
    """It froze before it wrote, with records that another one has written since, in a file of other offsets."""
    late = bucket.task(flush_size=3)
    late.put(rows(2))
    other = bucket.task(flush_size=2)
    other.put(rows(4))
    with pytest.raises(Fenced, match="another task has written the file of orders-0 from offset 0"):
        late.put(rows(1, 2))
    assert bucket.lines() == names(0, 4)


def test_a_task_that_is_late_and_first_is_right(bucket: Bucket) -> None:
    """What it writes is the chain's next file: the other one is fenced, and resumes after it."""
    late = bucket.task(flush_size=2)
    late.put(rows(2))
    other = bucket.task(flush_size=3)
    late.put(rows(2, 2))
    with pytest.raises(Fenced):
        other.put(rows(3, 2))
    context = SinkContext(positions={PARTITION: 0})
    bucket.task(context).put(rows(3, 4))
    assert context.offsets == {PARTITION: 4}
    assert bucket.lines() == names(0, 7)


def test_the_first_file_has_one_name_wherever_a_task_began(bucket: Bucket) -> None:
    """The group moved over records that are in no file: both tasks still have the same name in hand."""
    late = bucket.task(SinkContext(positions={PARTITION: 0}))
    late.put(rows(2, 5))
    other = bucket.task(SinkContext(positions={PARTITION: 5}))
    other.put(rows(3, 5))
    with pytest.raises(Fenced):
        late.put(rows(1, 7))
    assert bucket.names() == ["orders+0+0000000000.json"]
    assert bucket.lines() == names(5, 8)


def test_the_control_doubles(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of the first and the last offset, as in a folder: nothing fences a task that is late."""
    write = _BucketFiles.write

    def forked(self: Any, first: int, last: int, *rest: Any) -> None:
        self._at, self._extension = first, f"{last:010d}.json"
        write(self, first, last, *rest)

    late = bucket.task(flush_size=3)
    late.put(rows(2))
    other = bucket.task(flush_size=2)
    monkeypatch.setattr(_BucketFiles, "write", forked)
    other.put(rows(4))
    late.put(rows(1, 2))
    assert sorted(bucket.lines()) == sorted([*names(0, 4), *names(0, 3)])


def test_an_answer_that_was_lost(bucket: Bucket) -> None:
    place = BucketPlace(bucket.bucket, f"{bucket.prefix}/topics", bucket.config(), "json")
    files = place.files(PARTITION, "json")
    assert files.open(0) == 0
    files.write(0, 2, b"its", lambda: None)
    assert isinstance(files, _BucketFiles)
    files._at = 0  # as if it had not heard
    files.write(0, 2, b"its", lambda: None)
    assert files._at == 3
    assert bucket.names() == ["orders+0+0000000000.json"]


def test_a_prefix_belongs_to_one_connector(bucket: Bucket) -> None:
    bucket.task()
    other = FileSinkTask()
    other.start({**bucket.config(), "name": "other"}, SinkContext())
    with pytest.raises(ConfigError, match="belongs to connector 'its'"):
        other.open([PARTITION])


def test_a_topic_that_was_made_again(bucket: Bucket) -> None:
    bucket.task(SinkContext(topic_ids={"orders": "old"})).put(rows(3))
    bucket.task(SinkContext(topic_ids={"orders": "old"}))
    with pytest.raises(ConfigError, match="files of another topic of this name"):
        bucket.task(SinkContext(topic_ids={"orders": "new"}))


def test_another_format_is_refused(bucket: Bucket) -> None:
    task = bucket.task()
    with pytest.raises(ConfigError, match="files of json, and format"):
        bucket.task(format_class="ParquetFormat")
    task.put(rows(3))
    with pytest.raises(ConfigError, match="files of json, and format"):
        bucket.task(format_class="ParquetFormat")


def test_a_file_that_does_not_say_how_far_it_reaches(bucket: Bucket) -> None:
    key = f"{bucket.prefix}/{bucket.folder}/orders+0+0000000000.json"
    bucket.client.put_object(Bucket=bucket.bucket, Key=key, Body=b"{}\n")
    with pytest.raises(ConfigError, match="does not say how far it reaches"):
        bucket.task()


def test_offsets_that_are_changed_by_rest(bucket: Bucket) -> None:
    bucket.task(SinkContext(positions={PARTITION: 5}))
    assert FileSink().alter_offsets(bucket.config(), {PARTITION: 0})
    bucket.task(SinkContext(positions={PARTITION: 0})).put(rows(3))
    assert bucket.names() == ["orders+0+0000000000.json"]


def test_a_store_that_is_away_is_waited_for(bucket: Bucket, tmp_path: Path) -> None:
    with object_store(tmp_path) as gone:
        other = Bucket(gone)
        task = other.task()
    with pytest.raises(Retriable, match="a file cannot be written"):
        task.put(rows(3))
    again = FileSinkTask()
    again.start(other.config(), SinkContext())
    with pytest.raises(Retriable, match="does not answer"):
        again.open([PARTITION])
    missing = FileSinkTask()
    missing.start({**bucket.config(), "path": "s3://no-such-bucket/x"}, SinkContext())
    with pytest.raises(ConfigError, match="NoSuchBucket"):
        missing.open([PARTITION])
    with pytest.raises(ConfigError, match="the store of path cannot be used"):
        FileSink().validate({**bucket.config(), "store.url": "no address"})


def test_a_store_that_ignores_the_condition_is_refused(bucket: Bucket) -> None:
    with careless_store(bucket.given["store.url"]) as address:
        bucket.given["store.url"] = address
        with pytest.raises(ConfigError, match="replaces an object although the request says If-None-Match"):
            bucket.task()
        other = DeltaSinkTask()
        other.start({**delta_config(bucket.path), **bucket.given}, SinkContext())
        with pytest.raises(ConfigError, match="replaces an object"):
            other.open([PARTITION])


def test_delta_in_a_bucket(bucket: Bucket) -> None:
    """The commit of a task that is late is refused by the store's conditional write."""

    def task(flush_size: int, context: SinkContext) -> DeltaSinkTask:
        made = DeltaSinkTask()
        made.start({**delta_config(bucket.path, flush_size=flush_size), **bucket.given}, context)
        made.open([PARTITION])
        return made

    late = task(3, SinkContext())
    late.put(rows(2))
    task(2, SinkContext()).put(rows(4))
    with pytest.raises(Fenced):
        late.put(rows(1, 2))
    context = SinkContext(positions={PARTITION: 0})
    task(2, context).put(rows(2, 4))
    assert context.offsets == {PARTITION: 4}
    found = bucket.client.list_objects_v2(Bucket=bucket.bucket, Prefix=f"{bucket.prefix}/orders/_delta_log/")
    assert len(found["Contents"]) == 4
    keys = bucket.given
    options = {"AWS_ENDPOINT_URL": keys["store.url"], "AWS_ACCESS_KEY_ID": keys["aws.access.key.id"]}
    options |= {"AWS_SECRET_ACCESS_KEY": keys["aws.secret.access.key"], "AWS_REGION": keys["s3.region"]}
    table = DeltaTable(f"{bucket.path}/orders", storage_options={**options, "AWS_ALLOW_HTTP": "true"})
    assert sorted(table.to_pyarrow_table()["name"].to_pylist()) == names(0, 6)
