"""What a sink refuses before its configuration is stored, as REST shows it."""

from __future__ import annotations

import sys

import pytest

from semel.connect.settings.connector_config import ConnectorConfig, ConnectorConfigParser
from tests.connect.unit.test_config import worker

SINK = {"name": "its", "topics": "orders", "flush.size": "3"}
DELTA = {**SINK, "connector.class": "DeltaSink", "path": "/tables"}
ICEBERG = {
    **SINK,
    "connector.class": "IcebergSink",
    "iceberg.tables": "shop.orders",
    "iceberg.catalog.uri": "sqlite:////tables/catalog.db",
    "iceberg.catalog.warehouse": "/tables",
}
SQL = {"name": "its", "topics": "orders", "connector.class": "SqlSink", "connection.url": "sqlite:////x.db"}


def problems(given: dict[str, str]) -> dict[str, str]:
    return {one.setting: one.text for one in ConnectorConfigParser(given, worker()).problems}


@pytest.mark.parametrize(
    ("given", "package", "what"),
    [
        (DELTA, "deltalake", "DeltaSink needs deltalake"),
        (ICEBERG, "pyiceberg", "IcebergSink needs pyiceberg"),
        ({**DELTA, "path": "s3://lake/x"}, "boto3", "a sink on S3 needs boto3"),
        ({**DELTA, "connector.class": "FileSink", "path": "s3://lake/x"}, "boto3", "a sink on S3 needs boto3"),
        (SQL, "sqlalchemy", "a connector of SQL needs sqlalchemy"),
    ],
)
def test_a_missing_extra_says_what_to_install(
    given: dict[str, str], package: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert problems(given) == {}
    monkeypatch.setitem(sys.modules, package, None)
    (found,) = problems(given).items()
    assert found[0] == "connector.class"
    assert found[1].startswith(f"{what}, which is not installed. Run, in semel's checkout: pip install '.[")


def test_a_refusal_is_shown_at_its_setting() -> None:
    assert problems({**SQL, "connection.url": "jdbc:db2://x"}).keys() == {"connection.url"}
    assert problems({**DELTA, "path": "relative"}).keys() == {"path"}
    assert problems({**ICEBERG, "iceberg.catalog.type": "glue"}).keys() == {"iceberg.catalog.type"}
    assert problems({**ICEBERG, "iceberg.tables": "orders"}).keys() == {"iceberg.tables"}


def test_settings_below_a_prefix_are_taken_together_and_not_shown() -> None:
    given = {**ICEBERG, "iceberg.catalog.s3.secret-access-key": "hush"}
    config = ConnectorConfig.parse(given, worker())
    assert config.own["iceberg.catalog.*"] == {
        "uri": "sqlite:////tables/catalog.db",
        "warehouse": "/tables",
        "s3.secret-access-key": "hush",
    }
    shown = {one["value"]["name"]: one["value"]["value"] for one in ConnectorConfigParser(given, worker()).values()}
    assert shown["iceberg.catalog.s3.secret-access-key"] == "[hidden]"
    assert "iceberg.catalogue.uri is not a known property" in problems({**ICEBERG, "iceberg.catalogue.uri": "x"}).get(
        "iceberg.catalogue.uri", ""
    )


def test_what_upserts_need_is_refused() -> None:
    assert problems({**ICEBERG, "iceberg.tables.upsert-mode-enabled": "true"}).keys() == {
        "iceberg.tables.upsert-mode-enabled"
    }
