"""Which groups follow, and MirrorMaker 2's bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.mirror.config.properties import read_properties
from semel.mirror.formats import Checkpoint
from semel.mirror.offsets.groups import is_followed


@pytest.mark.parametrize(
    ("group", "followed"),
    [
        ("billing", True),
        ("mirror", True),
        ("mirror.x", True),
        ("mirror.A.B", False),  # kept by this flow on its source, for lag tools
        ("mirror.C.A", False),  # kept by a flow into the source, in its transactions
        ("mirror.C.B", True),
        ("mirrorXA.B", True),
        ("console-consumer-12", False),
        ("__x", False),
    ],
)
def test_groups_that_the_mirror_keeps_do_not_follow(tmp_path: Path, group: str, followed: bool) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\n")
    (flow,) = read_properties(file).flows
    assert is_followed(flow, group) is followed


def test_a_checkpoint_as_mirrormaker_writes_it() -> None:
    one = Checkpoint("g", "A.t", 3, 42, 17)
    assert one.key == b"\x00\x01g\x00\x03A.t\x00\x00\x00\x03"
    assert one.value == b"\x00\x00" + (42).to_bytes(8, "big") + (17).to_bytes(8, "big") + b"\x00\x00"
