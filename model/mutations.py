"""Deliberate breaks of the procedure.

Each is a control: a model that does not find it proves nothing about the procedure.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Breaks"]


@dataclass(frozen=True, slots=True)
class Breaks:
    """The mistakes of a control. All False is the procedure of PROTOCOL.md."""

    claim_first: bool = False  # the claim is written, and read up to, before InitProducerId
    read_to_stable: bool = False  # progress is read up to the last stable offset
    read_to_high: bool = False  # progress is read up to a high watermark, without a claim
    heal_as_abort: bool = False  # a lost marker is always written as an abort
    no_wait: bool = False  # the next transaction begins before the markers of the last one were seen
    init_again: bool = False  # a fenced owner calls InitProducerId again and goes on
    skip_by_number: bool = False  # a batch is skipped because its number is not above the progress
    no_proof: bool = False  # a task that failed is taken for one that wrote nothing
    deposed_is_heard: bool = False  # a deposed leader's word on open rows counts
    no_healing: bool = False  # rows whose marker is lost are left open, and the owner goes on
    no_markers: bool = False  # nobody looks for open rows at all
    no_precedence: bool = False  # every batch that Spark hands over is run
    no_rereading: bool = False  # progress is not read again after records of ours were settled
    no_rival_check: bool = False  # rows at our own epoch do not make an owner stop
    no_id_check: bool = (
        False  # what another producer id has open is healed, though our id may have expired and be that one's now
    )
    offsets_alone: bool = False  # the group is set right by a transaction without a progress record
    unsettled_start: bool = False  # startingOffsets=committed does not wait until every record is settled
    no_skipped_epoch: bool = False  # on brokers that take late markers, the next transaction has the markers' epoch
