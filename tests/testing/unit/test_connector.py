"""What ``semel connect test`` gives its worker."""

from __future__ import annotations

import pytest

from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.errors import ConfigError
from semel.testing.connector import _worker


def test_the_program_that_the_connector_names_may_run() -> None:
    given = {"name": "tap", "connector.class": "SingerSource", "tap": "/opt/taps/tap-shop", "topic.prefix": "shop-"}
    assert ConnectorConfig.parse(given, WorkerConfig.parse(_worker(given))).own["tap"] == "/opt/taps/tap-shop"
    with pytest.raises(ConfigError, match=r"semel\.programs\.allowed"):  # and no other one
        ConnectorConfig.parse(given | {"tap": "/bin/sh"}, WorkerConfig.parse(_worker(given)))


def test_a_connector_without_programs_allows_none() -> None:
    given = {"connector.class": "DatagenSource", "topic": "t"}
    assert list(WorkerConfig.parse(_worker(given)).programs) == []
