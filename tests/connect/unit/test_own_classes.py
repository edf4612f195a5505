"""Classes that an installed package announces, and names that lead nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.connect.own_classes import announced
from semel.connect.plugins import Plugin, connector_class, kind_of, plugins
from semel.connect.settings.connector_config import ConnectorConfigParser
from semel.connect.settings.worker_config import WorkerConfig
from semel.errors import ConfigError
from tests.connect.unit.test_config import LINES, WORKER

MODULE = """
from semel.connect import Predicate, SinkConnector, SourceConnector, Transform

class Orders(SourceConnector): pass
class Ledger(SinkConnector): pass
class Redact(Transform):
    def change(self, record): return record
class Big(Predicate):
    def chooses(self, record): return True
"""
ENTRIES = """
[semel.connect.sources]
ShopOrders = shop_of_tests:Orders
[semel.connect.sinks]
ShopLedger = shop_of_tests:Ledger
[semel.connect.transforms]
Redact = shop_of_tests:Redact
[semel.connect.predicates]
Big = shop_of_tests:Big
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package."""
    (tmp_path / "shop_of_tests.py").write_text(MODULE)
    about = tmp_path / "shop_of_tests-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-of-tests\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    announced.cache_clear()
    yield
    announced.cache_clear()


@pytest.mark.usefixtures("shop")
def test_what_a_package_announces_is_listed_and_used_by_its_short_name() -> None:
    listed = [one for one in plugins() if one.version == "1.2"]
    kinds = {"source": "ShopOrders", "sink": "ShopLedger", "transformation": "Redact", "predicate": "Big"}
    assert listed == [Plugin(kind, name, "1.2") for kind, name in kinds.items()]
    assert connector_class("ShopOrders").__name__ == "Orders"
    assert (kind_of("ShopOrders"), kind_of("ShopLedger")) == ("source", "sink")
    given = {"transforms": "r", "transforms.r.type": "Redact$Value", "transforms.r.predicate": "b", "predicates": "b"}
    parser = ConnectorConfigParser({**LINES, **given, "predicates.b.type": "Big"}, WorkerConfig.parse(WORKER))
    assert parser.problems == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ShopOrders", "is not a connector"),
        ("FileStreamSorce", "did you mean FileStreamSource"),
        ("shop_nowhere.Orders", "cannot be imported (ModuleNotFoundError"),
        ("json.Nothing", "cannot be imported (AttributeError"),
        ("json.JSONDecoder", "is not a connector"),
    ],
)
def test_a_name_that_leads_nowhere(name: str, text: str) -> None:
    announced.cache_clear()
    with pytest.raises(ConfigError) as refused:
        connector_class(name)
    assert text in refused.value.message
