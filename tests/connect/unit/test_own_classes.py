"""Classes that an installed package announces, and names that lead nowhere."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from semel.connect.plugins import Plugin, connector_class, converter, kind_of, plugins
from semel.connect.settings.connector_config import ConnectorConfigParser
from semel.connect.settings.worker_config import WorkerConfig
from semel.errors import ConfigError
from semel.serdes.schemas.arrow import arrow_field, schema_of
from semel.settings.own_classes import announced
from semel.settings.providers import Providers
from tests.connect.support.own_converters import ROW
from tests.connect.unit.test_config import LINES, WORKER

MODULE = """
from semel.connect import ConfigProvider, Converter, Predicate, SinkConnector, SourceConnector, Transform

class Orders(SourceConnector): pass
class Ledger(SinkConnector): pass
class Redact(Transform):
    def change(self, record): return record
class Big(Predicate):
    def chooses(self, record): return True
class Vault(ConfigProvider):
    def get(self, path, key):
        if path == "broken":
            raise OSError("the password is hush")
        return {"a": "1", "number": 1}.get(key, self.parameters.get(key))
class Text(Converter):
    def from_connect_data(self, topic, schema, value): return "text"
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
[semel.connect.config_providers]
ShopVault = shop_of_tests:Vault
[semel.connect.converters]
Text = shop_of_tests:Text
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
    kinds = {
        "source": "ShopOrders",
        "sink": "ShopLedger",
        "transformation": "Redact",
        "predicate": "Big",
        "converter": "Text",
    }
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


SEMICOLONS = "tests.connect.support.own_converters.Semicolons"


def test_a_converter_of_ones_own_writes_records_and_tables_and_reads_them() -> None:
    made = converter(SEMICOLONS, "value.converter", {"separator": "|"})
    rows = [{"id": 1, "name": "a"}, None, {"id": 2, "name": "b"}]
    written = [b"1|a", None, b"2|b"]
    assert [made.value(None, one, "value", "t") for one in rows] == written
    field = arrow_field("value", ROW).with_nullable(True)
    assert made.column(pa.chunked_array([pa.array(rows, field.type)]), field, "t").to_pylist() == written
    ((field, column),) = made.read(pa.array(written), "value", "t")
    assert (schema_of(field).but(optional=False), column.to_pylist()) == (ROW, rows)


def test_what_a_converter_of_ones_own_raises_is_an_error_of_the_record() -> None:
    made = converter(SEMICOLONS, "value.converter", {})
    with pytest.raises(ConfigError, match=r"made Semicolons raise KeyError: 'name'. Nothing of this poll is visible"):
        made.value(None, {"id": 1}, "value", "t")
    with pytest.raises(ConfigError, match=r"it raised ValueError: .* The record was not put into the target"):
        made.read(pa.array([b"1"]), "value", "t")
    with pytest.raises(ConfigError, match=r"a value .*2147483648"):
        made.read(pa.array([b"2147483648;a"]), "value", "t")
    with pytest.raises(ConfigError, match=r"value\.converter\.seperator.*did you mean value\.converter\.separator"):
        converter(SEMICOLONS, "value.converter", {"seperator": "|"})
    with pytest.raises(ConfigError, match=r"no subclass of semel\.connect\.Converter"):
        converter("json.JSONDecoder", "value.converter", {})


@pytest.mark.usefixtures("shop")
def test_a_converter_must_give_bytes() -> None:
    with pytest.raises(ConfigError, match="was made a str by Text, which must give bytes"):
        converter("Text", "key.converter", {}).value(None, 1, "key", "t")


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("name", ["ShopVault", "shop_of_tests.Vault"])
def test_a_config_provider_of_ones_own(name: str) -> None:
    given = {"config.providers": "v", "config.providers.v.class": name, "config.providers.v.param.b": "2"}
    made = Providers.parse(given)
    assert made.resolve({"x": "${v:a}-${v:path:b}"}) == {"x": "1-2"}
    for key in ("missing", "number"):
        with pytest.raises(ConfigError, match="is not found, or not allowed"):
            made.resolve({"x": f"${{v:{key}}}"})
    with pytest.raises(ConfigError, match="the provider raised OSError") as refused:
        made.resolve({"x": "${v:broken:a}"})
    assert "hush" not in "".join(traceback.format_exception(refused.value))
    with pytest.raises(ConfigError, match=r"config\.providers\.v\.path is not a known property"):
        Providers.parse({**given, "config.providers.v.path": "x"})


def test_a_config_provider_that_is_none() -> None:
    for name, text in (("json.JSONDecoder", "is no subclass of"), ("com.shop.Vault", "is not a known provider")):
        with pytest.raises(ConfigError, match=text):
            Providers.parse({"config.providers": "v", "config.providers.v.class": name})
