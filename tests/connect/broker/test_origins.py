"""Who may ask semel's REST: not a web page elsewhere."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from tests.connect.support.lines import STRING
from tests.connect.support.rest import Rest, semel_connect


def test_web_pages_elsewhere_are_refused(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    servers = kafka.bootstrap_servers
    worker = {
        "bootstrap.servers": servers,
        "group.id": "rest-origins",
        "offset.storage.topic": "rest-origins-offsets",
        "key.converter": STRING,
        "value.converter": STRING,
        "access.control.allow.origin": "https://ui.example",
    }
    with semel_connect(spark, worker) as address:
        rest = Rest("origins", address, servers, worker, tmp_path)
        assert rest.ask("GET", "/connectors", Origin="https://evil.example")[0] == 403
        assert rest.ask("GET", "/connectors", Host="evil.example:8083")[0] == 403
        assert rest.ask("GET", "/connectors", Origin=address)[0] == 200
        assert rest.ask("GET", "/connectors", Origin="https://ui.example")[0] == 200
        assert rest.ask("GET", "/connectors", Host="localhost")[0] == 200
        elsewhere = {"Sec-Fetch-Site": "cross-site"}
        assert rest.ask("GET", "/connector-plugins/antigravity.X/config", **elsewhere)[0] == 403, "a picture's address"
        assert rest.ask("GET", "/", **elsewhere)[0] == 200, "a link to the page"
        assert rest.ask("GET", "/connectors", **{"Sec-Fetch-Site": "same-origin"})[0] == 200
