"""Partitions that a source has read and its options no longer include: a topic removed from ``subscribe``, or a
partition from ``assign``.

With ``failOnDataLoss`` the query stops, as with Spark's own source: most often a name is mistyped, or topics were moved
between the sources of a query. Without it, they are dropped with a warning, and begin as new when they are named again
(docs/decisions/0014).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from semel.errors import DataLoss
from semel.wire.metadata import TopicPartition

__all__ = ["drop_unsubscribed"]

log = logging.getLogger("semel.spark")


def drop_unsubscribed(ends: Mapping[TopicPartition, int], *, fail_on_data_loss: bool) -> None:
    """Warn of partitions that are dropped, given with their next offsets; with ``failOnDataLoss``, raise
    :class:`DataLoss` for them. Nothing is done for none.
    """
    if ends and fail_on_data_loss:
        raise DataLoss(
            f"the options no longer include what this query was reading: {_places(ends)}. Nothing was read. (1) By"
            " mistake: correct subscribe, assign or subscribePattern, and move topics back that went to another source"
            " of the query. (2) On purpose: start once with failOnDataLoss=false. They are dropped; if you add them"
            " again, they are read from their beginning.",
            tag="LEFT_OUT",
        )
    if ends:
        log.warning(
            "dropped, since the options no longer include it: %s. If you add it again, it is read from its beginning",
            _places(ends),
        )


def _places(ends: Mapping[TopicPartition, int]) -> str:
    more = f", and {len(ends) - 20} more" if len(ends) > 20 else ""
    return ", ".join(f"{topic}-{index} at {offset}" for (topic, index), offset in sorted(ends.items())[:20]) + more
