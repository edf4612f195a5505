"""Texts of what a topology has sent."""

from __future__ import annotations

from semel.streams.testing import Driver


def said(driver: Driver, topic: str) -> list[tuple[object, object, int]]:
    return [(one.key, one.value, one.timestamp) for one in driver.read(topic, key="bytes")]
