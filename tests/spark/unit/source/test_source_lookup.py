"""How Spark finds the format: by itself, and never at the cost of other packages' data sources."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import types as t
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, DataSourceStreamReader, InputPartition

import pyspark_semel
import semel
from semel.errors import ConfigError
from semel.read import Range
from semel.spark.data_source import SemelDataSource
from semel.spark.source.readers import BatchReader, Slice

OPTIONS = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "in"}

#: What Spark runs to find data sources, in a process of its own, behind an import that fails as it would in a broken
#: installation.
LOOK_UP = """
import io, pickle, sys
from pyspark.serializers import read_int
from pyspark.sql.worker.lookup_data_sources import _main

class Broken:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BROKEN:
            raise RuntimeError(name + " is broken")

sys.meta_path.insert(0, Broken())
answer = io.BytesIO()
_main(None, answer)
answer.seek(0)
names = []
for _ in range(read_int(answer)):
    names.append(answer.read(read_int(answer)).decode())
    answer.read(read_int(answer))
print(sorted(names), "semel" in sys.modules)
"""


def look_up(directory: Path, *broken: str) -> str:
    other = (
        "from pyspark.sql.datasource import DataSource\nclass DefaultSource(DataSource):\n    name ="
        " classmethod(lambda cls: 'other')\n"
    )
    (directory / "pyspark_other.py").write_text(other)
    path = os.pathsep.join([str(directory), str(Path(semel.__file__).parents[1])])
    code = LOOK_UP.replace("BROKEN", repr(broken))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout.strip() or done.stderr


def test_spark_finds_it_and_others_without_importing_semel(tmp_path: Path) -> None:
    assert look_up(tmp_path) == "['other', 'semel'] False"


def test_a_broken_installation_hides_nobody(tmp_path: Path) -> None:
    assert look_up(tmp_path, "semel", "numpy", "pyarrow", "kafka", "crc32c") == "['other', 'semel'] False"


def test_control_an_import_that_fails_hides_everybody(tmp_path: Path) -> None:
    (tmp_path / "pyspark_bad.py").write_text("import nothing_of_that_name\n")
    assert "nothing_of_that_name" in look_up(tmp_path)


def test_without_pyspark_there_is_no_source_and_no_error() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None; import pyspark_semel; print(pyspark_semel.__all__,"
        " hasattr(pyspark_semel, 'DefaultSource'))"
    )
    path = str(Path(semel.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "[] False"


def test_the_found_class_gives_everything_on_to_the_source() -> None:
    found = pyspark_semel.DefaultSource(CaseInsensitiveDict(OPTIONS))
    assert isinstance(found, DataSource)
    assert found.name() == SemelDataSource.name() == "semel"
    assert isinstance(found.reader(found.schema()), BatchReader)
    assert isinstance(found.streamReader(found.schema()), DataSourceStreamReader)
    assert pickle.loads(pickle.dumps(pyspark_semel.DefaultSource)) is pyspark_semel.DefaultSource


def test_the_columns_are_those_of_sparks_source() -> None:
    schema = SemelDataSource(OPTIONS).schema()
    assert schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    with_headers = SemelDataSource({**OPTIONS, "includeHeaders": "true"}).schema()
    assert with_headers["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"


def test_other_columns_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"\[SEMEL_SCHEMA_GIVEN\]"):
        SemelDataSource(OPTIONS).reader(t.StructType([t.StructField("value", t.StringType())]))
    with pytest.raises(ConfigError, match=r"\[SEMEL_SCHEMA_GIVEN\]"):
        SemelDataSource(OPTIONS).streamReader(SemelDataSource({**OPTIONS, "includeHeaders": "true"}).schema())


def test_what_travels_to_a_task_is_small() -> None:
    source = SemelDataSource({**OPTIONS, "kafka.client.id": "me"})
    piece = Slice((Range("in", "u" * 22, 3, 5, 2**50),))
    assert pickle.loads(pickle.dumps(piece)).unpack() == piece.ranges
    assert len(pickle.dumps(piece)) < 300
    for reader in (source.reader(source.schema()), source.streamReader(source.schema())):
        assert len(pickle.dumps(reader)) < 2000
        assert list(pickle.loads(pickle.dumps(reader)).read(InputPartition(None))) == [], (
            "the partition that Spark makes up where there is none"
        )
