"""A cluster that does not answer: whoever scrapes gets what there is, soon, and the query's own settings are not what
it waits by.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from semel.config import ClientConfig
from semel.spark.metrics import meter as metrics
from semel.spark.metrics.cluster_poll import ClusterPoller, PrefixLag
from semel.spark.metrics.meter import meter

#: Below every timeout of a query's client.
SOON_S = 9


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and says nothing, as a broker does that is frozen."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        yield listening.getsockname()[1]


def test_a_broker_that_says_nothing_is_given_up_soon(silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_meters", type(metrics._meters)())
    config = ClientConfig((("127.0.0.1", silent),))
    assert (
        min(config.request_timeout_ms, config.default_api_timeout_ms, config.connection_setup_timeout_ms)
        > SOON_S * 1000
    )
    for prefix in ("one", "two", "three"):
        meter(config, prefix, ("out",))
    lookout, seen = ClusterPoller(within_ms=100), list[PrefixLag]()
    asking = threading.Thread(target=lambda: seen.extend(lookout.poll()), daemon=True)
    asking.start()
    asking.join(SOON_S)
    assert not asking.is_alive(), "whoever scrapes waits as long as the query would"
    assert seen == [PrefixLag("one"), PrefixLag("two"), PrefixLag("three")]
    assert lookout.failures == 1, "where nobody answers, the other prefixes are not tried"
    lookout.close()
