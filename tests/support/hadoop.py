"""Servers of Hadoop as processes of this machine, from the jars that Maven has: what they share, and HDFS."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from xml.sax.saxutils import escape

import pyspark

from semel.sandbox import find_java, ivy
from semel.sandbox.jars import cache_directory
from semel.sandbox.ports import Ports
from tests.docs.support.shell import outside
from tests.support.waiting import wait_for

ME = "127.0.0.1"
SPARK = Path(pyspark.__file__).parent
#: The release of the client that PySpark has.
HADOOP = "3.5.0"
_BOUNCY_CASTLE = [("org.bouncycastle", f"{name}-jdk18on", "1.82") for name in ("bcprov", "bcpkix", "bcutil")]
#: Hadoop's servers, and what they need and do not name.
_SERVERS = [("org.apache.hadoop", "hadoop-client-minicluster", HADOOP), *_BOUNCY_CASTLE]


def java(conf: Path) -> list[str]:
    """Return the command of a server of Hadoop with the settings of a folder, up to the name of its class."""
    jars = ivy.kept(cache_directory() / "hadoop" / HADOOP, _SERVERS, f"servers of Hadoop {HADOOP}", progress=True)
    path = os.pathsep.join(map(str, [conf, *jars, SPARK / "jars" / "*"]))
    return [find_java(), "-XX:TieredStopAtLevel=1", "-cp", path]


@contextmanager
def hdfs(folder: Path) -> Iterator[str]:
    """Yield the URI of an HDFS that has a name node and a data node."""
    conf = folder / "hdfs"
    conf.mkdir()
    with ports(5) as (rpc, web, data, data_web, data_rpc):
        uri = f"hdfs://{ME}:{rpc}"
        (conf / "core-site.xml").write_text(xml({"fs.defaultFS": uri}))
        settings = {
            "dfs.namenode.name.dir": str(conf / "name"),
            "dfs.datanode.data.dir": str(conf / "data"),
            "dfs.replication": "1",
            "dfs.namenode.http-address": f"{ME}:{web}",
            "dfs.datanode.address": f"{ME}:{data}",
            "dfs.datanode.http.address": f"{ME}:{data_web}",
            "dfs.datanode.ipc.address": f"{ME}:{data_rpc}",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        }
        (conf / "hdfs-site.xml").write_text(xml(settings))
        server = "org.apache.hadoop.hdfs.server"
        name_node = [*java(conf), f"{server}.namenode.NameNode"]
        subprocess.run([*name_node, "-format", "-nonInteractive"], check=True, capture_output=True)
        status = f"http://{ME}:{web}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        with Server.running(name_node, folder / "name.log") as running:
            running.wait_until(status, lambda answer: bool(answer["beans"]))
            with Server.running([*java(conf), f"{server}.datanode.DataNode"], folder / "data.log") as running:
                running.wait_until(status, lambda answer: answer["beans"][0]["NumLiveDataNodes"] == 1)
                yield uri


def xml(settings: Mapping[str, str]) -> str:
    """Return a file of settings as Hadoop reads it."""
    rows = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n" for name, value in settings.items()
    )
    return f"<configuration>\n{rows}</configuration>\n"


@contextmanager
def ports(count: int) -> Iterator[list[int]]:
    """Hold free ports of this machine."""
    held = Ports(count)
    try:
        yield held.numbers
    finally:
        held.release()


@dataclass(frozen=True, slots=True)
class Server:
    """A Java process, and the log of what it prints."""

    process: subprocess.Popen[bytes]
    log: Path

    @staticmethod
    @contextmanager
    def running(argv: Sequence[str], log: Path) -> Iterator[Server]:
        variables = {**outside(), "SPARK_HOME": str(SPARK)}
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv, cwd=log.parent, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            yield Server(process, log)
        finally:
            process.terminate()  # a node ends its containers
            try:
                process.wait(60)
            finally:
                process.kill()

    def wait_until(self, address: str, holds: Callable[[Any], bool]) -> None:
        """For what a page of JSON tells; an end of the process is one."""
        wait_for(lambda: self.process.poll() is not None or _tells(address, holds), address)
        assert self.process.poll() is None, self.log.read_text(errors="replace")[-4000:]


def _tells(address: str, holds: Callable[[Any], bool]) -> bool:
    """Not yet, where it listens without its pages: Spark's answers 404 first, and for a moment its front page at each
    address.
    """
    try:
        with urlopen(address, timeout=5) as answer:
            return holds(json.load(answer))
    except (OSError, json.JSONDecodeError):
        return False
