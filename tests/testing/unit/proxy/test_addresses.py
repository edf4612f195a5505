"""Addresses in answers, against kafka-python's encoder, in every version that it knows; a new version fails here."""

import struct

import pytest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse

from semel.testing.proxy.addresses import addresses, replaced
from semel.testing.proxy.frames import APIS, Request, api_key, correlation_of

ONE, TWO, OTHER = ("broker-one.example", 9092), ("10.0.0.2", 19092), ("127.0.0.1", 20001)
LONG = ("a" * 200, 65535)
METADATA, FIND_COORDINATOR = 3, 10


def head(compact: bool) -> bytes:
    return struct.pack(">i", 77) + (b"\0" if compact else b"")


def metadata(version: int, *brokers: tuple[str, int]) -> bytes:
    make = MetadataResponse.MetadataResponseBroker
    rows = [
        make(node_id=node, host=host, port=port, rack="r" if node else None)
        for node, (host, port) in enumerate(brokers)
    ]
    answer = MetadataResponse(throttle_time_ms=7, brokers=rows, cluster_id="c", controller_id=1, topics=[])
    return head(version >= 9) + bytes(answer.encode(version=version))


def coordinators(version: int, *brokers: tuple[str, int]) -> bytes:
    host, port = brokers[0]
    rows = [
        FindCoordinatorResponse.Coordinator(
            key=f"k{node}", node_id=node, host=host, port=port, error_code=0, error_message="m"
        )
        for node, (host, port) in enumerate(brokers)
    ]
    answer = FindCoordinatorResponse(
        throttle_time_ms=7, error_code=0, error_message="fine", node_id=3, host=host, port=port, coordinators=rows
    )
    return head(version >= 3) + bytes(answer.encode(version=version))


@pytest.mark.parametrize("version", range(MetadataResponse.max_version + 1))
@pytest.mark.parametrize("other", [OTHER, LONG, ("h", 1)])
def test_brokers_of_metadata_are_replaced_and_nothing_else(version: int, other: tuple[str, int]) -> None:
    answer = metadata(version, ONE, TWO)
    assert addresses(METADATA, version, answer) == [ONE, TWO]
    assert replaced(METADATA, version, answer, {ONE: other}) == metadata(version, other, TWO)
    assert replaced(METADATA, version, answer, {ONE: TWO, TWO: ONE}) == metadata(version, TWO, ONE)
    assert replaced(METADATA, version, answer, {}) == answer


@pytest.mark.parametrize("version", range(FindCoordinatorResponse.max_version + 1))
@pytest.mark.parametrize("other", [OTHER, LONG])
def test_coordinators_are_replaced_and_nothing_else(version: int, other: tuple[str, int]) -> None:
    answer = coordinators(version, ONE, TWO)
    assert addresses(FIND_COORDINATOR, version, answer) == ([ONE, TWO] if version >= 4 else [ONE])
    assert replaced(FIND_COORDINATOR, version, answer, {ONE: other}) == coordinators(version, other, TWO)


@pytest.mark.parametrize("version", range(FindCoordinatorResponse.max_version + 1))
def test_a_coordinator_that_was_not_found_has_no_address(version: int) -> None:
    assert addresses(FIND_COORDINATOR, version, coordinators(version, ("", -1))) == []


def test_other_answers_are_left_alone() -> None:
    assert addresses(1, 13, b"anything") == []
    assert replaced(1, 13, b"anything", {ONE: TWO}) == b"anything"


def test_names_of_apis_are_kafkas() -> None:
    assert {key: ApiKey(key).name for key in APIS} == APIS
    assert api_key("EndTxn") == 26
    with pytest.raises(ValueError, match=r"'endtxn' is not the name .* EndTxn"):
        api_key("endtxn")


def test_headers() -> None:
    request = Request.read(struct.pack(">hhi", 26, 5, 1234) + b"rest")
    assert (request.api, request.version, request.correlation) == ("EndTxn", 5, 1234)
    assert request.renumbered(-2) == struct.pack(">hhi", 26, 5, -2) + b"rest"
    assert Request.read(struct.pack(">hhi", 999, 0, 0)).api == "999"
    assert correlation_of(struct.pack(">i", -5) + b"x") == -5
    for wrong in (lambda: Request.read(b"1234567"), lambda: correlation_of(b"123")):
        with pytest.raises(ConnectionError):
            wrong()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        bytes(8),
        b"\0\0\0\1\0" + b"\xff" * 100_000,
        b"\0\0\0\1\0" + bytes(4) + b"\2" + bytes(4) + b"\3\xc3\x28" + bytes(4),
    ],
    ids=len,
)
def test_an_answer_that_cannot_be_read_is_said(answer: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        addresses(3, 12, answer)
