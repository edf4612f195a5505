"""What a source has read, and its options ask for no more: a topic that was taken out of ``subscribe``, a partition out
of ``assign``.

With ``failOnDataLoss`` the query stops, as with Spark's own source: most often somebody has mistyped a name, or moved
topics between the sources of a query. Without, they are paused: they stay in the offset where they stand, and named
again they are read on from there (docs/decisions/0009). What is paused already needs no second consent, and what of it
is gone is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from semel.errors import DataLoss
from semel.wire.metadata import TopicPartition

__all__ = ["check_still_subscribed", "warn_paused"]

log = logging.getLogger("semel.spark")


def check_still_subscribed(ends: Mapping[TopicPartition, int], *, fail_on_data_loss: bool) -> None:
    """Raise :class:`DataLoss` for partitions that are left out, given with their next offsets.

    None, or consent by the option: nothing done.
    """
    if ends and fail_on_data_loss:
        raise DataLoss(
            f"the options ask no more for what this query was reading: {_places(ends)}. Nothing was read. Correct"
            " subscribe, assign or subscribePattern; where topics were moved between the sources of a query, move"
            " them back. To leave them out on purpose, start once with failOnDataLoss=false: they stay where they"
            " are, none of their rows is read, and named again they are read on from there. What is new to the query"
            " is read from its beginning.",
            tag="LEFT_OUT",
        )


def warn_paused(paused: Mapping[TopicPartition, int], gone: Mapping[TopicPartition, int]) -> None:
    """Warn of what is not read for now, and of what of it is not there any more."""
    if paused:
        log.warning("paused, as the options leave it out (named again, it is read on from there): %s", _places(paused))
    if gone:
        log.warning("forgotten, as the options leave it out, and it was deleted or created again: %s", _places(gone))


def _places(ends: Mapping[TopicPartition, int]) -> str:
    more = f", and {len(ends) - 20} more" if len(ends) > 20 else ""
    return ", ".join(f"{topic}-{index} at {offset}" for (topic, index), offset in sorted(ends.items())[:20]) + more
