"""S3 as a process of this machine: moto's server. Its objects are in memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from semel.sandbox import ivy
from semel.sandbox.jars import cache_directory
from semel.testing.program import Program
from tests.support.hadoop import HADOOP, ME, ports
from tests.support.waiting import wait_for

_BUCKET = "checkpoints"
_KEY, _SECRET, _REGION = "a-key", "a-secret", "us-east-1"
_SDK = "2.57.8"
_AMAZON = "software.amazon.awssdk"
#: What hadoop-aws names is Amazon's whole SDK, of 600 MB in one jar. These are the parts of it that a checkpoint uses.
_ALONE = [
    ("org.apache.hadoop", "hadoop-aws", HADOOP),
    ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
]
_WHOLE = [(_AMAZON, name, _SDK) for name in ("s3", "s3-transfer-manager", "sts", "apache-client")]


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A bucket of a server. ``folder`` is its URI for Spark."""

    endpoint: str
    folder: str = f"s3a://{_BUCKET}"

    def spark(self) -> dict[str, str]:
        """Return what Spark needs to reach it: jars and settings."""
        s3a = {
            "endpoint": self.endpoint,
            "endpoint.region": _REGION,
            "path.style.access": "true",
            "access.key": _KEY,
            "secret.key": _SECRET,
            "connection.ssl.enabled": "false",
        }
        jars = [*_kept("hadoop-aws", _ALONE), *_kept("sdk", _WHOLE, whole=True)]
        return {
            "spark.jars": ",".join(map(str, jars)),
            **{f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()},
        }

    def keys(self) -> dict[str, str]:
        """Return the login, by the names of a sink's settings."""
        return {"s3.region": _REGION, "aws.access.key.id": _KEY, "aws.secret.access.key": _SECRET}

    def environment(self) -> dict[str, str]:
        """Return what the driver's Python needs to reach it: pyarrow reads Amazon's variables."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": _REGION,
        }


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """Run it with an empty bucket; its log is in the folder."""
    with ports(1) as (port,):
        argv = [sys.executable, "-m", "moto.server", "-H", ME, "-p", str(port)]
        with Program(argv, os.environ, folder / "s3.log") as server:
            store = ObjectStore(f"http://{ME}:{port}")
            wait_for(lambda: _has_bucket(store, server), server.tail)
            yield store


def _has_bucket(store: ObjectStore, server: Program) -> bool:
    assert server.process.poll() is None, server.tail()
    try:
        with urlopen(Request(f"{store.endpoint}/{_BUCKET}", method="PUT"), timeout=60) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _kept(part: str, modules: list[tuple[str, str, str]], *, whole: bool = False) -> list[Path]:
    home = cache_directory() / "hadoop-s3" / f"{part}-{HADOOP}-{_SDK}"
    return ivy.kept(home, modules, "the S3 client of Hadoop", progress=True, whole=whole)
