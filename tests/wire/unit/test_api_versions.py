"""Which brokers can share transactions (DESIGN rule 8), by what they say of themselves."""

from __future__ import annotations

import pytest
from kafka.protocol.producer import WriteTxnMarkersRequest

from semel.errors import Unsupported
from semel.wire.api_versions import Versions

MARKERS = WriteTxnMarkersRequest.API_KEY


def broker(*, markers: int, feature: int) -> Versions:
    return Versions("b:9092", {MARKERS: (0, markers)}, {"transaction.version": feature})


def test_a_new_broker_passes_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    broker(markers=2, feature=2).check_shared_transactions()
    assert caplog.records == []


def test_an_old_feature_is_refused_with_the_command() -> None:
    with pytest.raises(
        Unsupported, match=r"kafka-features.sh --bootstrap-server b:9092 upgrade --feature transaction.version=2"
    ):
        broker(markers=2, feature=1).check_shared_transactions()


def test_a_broker_before_4_0_is_refused_for_writing_alone() -> None:
    """…for writing, where it also lacks the feature: it is older than 4.0."""
    with pytest.raises(Unsupported, match=r"reading works on 3\.9 and newer\. Upgrade the brokers to 4\.0"):
        broker(markers=1, feature=0).check_shared_transactions()


@pytest.mark.parametrize(("markers", "late"), [(1, True), (2, False)])
def test_a_broker_before_4_2_takes_late_markers(markers: int, late: bool) -> None:
    versions = broker(markers=markers, feature=2)
    versions.check_shared_transactions()
    assert versions.takes_late_markers is late
