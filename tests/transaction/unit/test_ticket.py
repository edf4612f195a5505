"""Tickets and receipts travel: small, whole, and with nothing secret in them."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import replace
from uuid import UUID

import pyarrow as pa
import pytest

from semel import __version__
from semel.config import ClientConfig
from semel.errors import AbortAndRetry, ConfigError
from semel.transaction.participant import Participant
from semel.transaction.ticket import Receipt, Ticket, TicketTopic, Written, read_receipt, read_ticket
from semel.wire.api.produce import Acknowledged
from semel.wire.api.transactions import Identity
from semel.wire.client import Client

IDENTITY = Identity("orders", 4000, 7)
TICKET = Ticket(3, IDENTITY, (("out", 0), ("out", 2)), {"out": TicketTopic(UUID(int=5), 4, 1_000_000)})
RECEIPT = Receipt(3, IDENTITY, {("out", 0): Written(10, 12, 3, 120)}, stage=8, task=1)


@pytest.fixture
def client() -> Client:
    """Nobody listens there: what is refused must be refused before anything is sent."""
    return Client(ClientConfig.parse({"bootstrap.servers": "127.0.0.1:1"}))


@pytest.mark.parametrize("value", [TICKET, RECEIPT], ids=["ticket", "receipt"])
def test_it_survives_pickling_and_is_small(value: object) -> None:
    packed = pickle.dumps(value)
    assert pickle.loads(packed) == value
    assert len(packed) < 1000


def test_a_ticket_holds_an_identity_its_partitions_and_nothing_to_connect_with() -> None:
    assert set(Ticket.__slots__) == {"number", "identity", "partitions", "topics", "version"}
    assert set(TicketTopic.__slots__) == {"id", "partitions", "max_bytes"}


@pytest.mark.parametrize("attempt", [1, 2, 17])
def test_a_second_attempt_is_refused_at_once(client: Client, attempt: int) -> None:
    with pytest.raises(AbortAndRetry, match="second attempt") as raised:
        Participant(client, TICKET, attempt=attempt)
    assert raised.value.tag == "SECOND_ATTEMPT"


def test_another_version_of_semel_is_refused(client: Client) -> None:
    """Also at a second attempt, and whatever else stands in it: nothing else of it is read."""
    for value in ({"semel": "0.0.7", "v": 9, "anything": [1]}, {**json.loads(TICKET.encode()), "semel": "0.0.7"}):
        there = read_ticket(json.dumps(value).encode())
        for attempt in (0, 1):
            with pytest.raises(
                ConfigError,
                match=rf"semel 0\.0\.7 made this ticket.*has semel {re.escape(__version__)}\. .*nothing.*same wheel",
            ) as raised:
                Participant(client, there, attempt=attempt)
            assert raised.value.tag == "OTHER_VERSION"


def test_a_receipt_of_another_version_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"semel 0\.0\.7 made a receipt.*same wheel"):
        read_receipt(b'{"semel":"0.0.7","unheard":0}')


@pytest.mark.parametrize(
    ("topic", "columns", "named", "tag"),
    [
        ("other", {"value": ["x"]}, "'other'", "OUTSIDE_TICKET"),
        ("out", {"value": ["x"], "partition": [1]}, "out-1", "OUTSIDE_TICKET"),
        ("out", {"value": ["x", "y"], "partition": [0, 3]}, "out-3", "OUTSIDE_TICKET"),
        ("out", {"value": ["x"], "partition": [4]}, "out-4", "UNKNOWN_PARTITION"),
        ("out", {"value": ["x"], "partition": [-1]}, "out--1", "UNKNOWN_PARTITION"),
        ("out", {"value": ["x"], "partition": [2**40]}, f"out-{2**40}", "UNKNOWN_PARTITION"),
        ("out", {"value": ["x"], "header": ["h"]}, "column 'header' is not a Kafka record field", "EXTRA_COLUMN"),
    ],
)
def test_rows_outside_the_ticket_are_refused_before_anything_is_sent(
    client: Client, topic: str, columns: dict[str, list[object]], named: str, tag: str
) -> None:
    participant = Participant(client, TICKET)
    with pytest.raises(ConfigError, match=f"{named}.*None of these rows was sent") as raised:
        participant.write(topic, pa.table(columns))
    assert raised.value.tag == tag
    with pytest.raises(AbortAndRetry, match="no receipt"):
        _ = participant.receipt


def test_keyed_rows_go_where_javas_producer_sends_them(client: Client) -> None:
    """Of these keys one belongs to a partition that is not on the ticket: a writer must not bend it to one that is."""
    participant = Participant(client, TICKET)
    with pytest.raises(ConfigError, match=r"out-[13]"):
        participant.write("out", pa.table({"key": [str(number) for number in range(50)], "value": ["x"] * 50}))


def test_a_participant_that_failed_has_no_receipt(client: Client) -> None:
    participant = Participant(client, TICKET)
    with pytest.raises(KeyError), participant:
        raise KeyError("the user's own")
    with pytest.raises(AbortAndRetry) as raised:
        _ = participant.receipt
    assert raised.value.tag == "NO_RECEIPT"


@pytest.mark.parametrize(
    ("ticket", "meaning"),
    [(TICKET, "once it is aborted"), (replace(TICKET, identity=Identity("", -1, -1)), "may be visible")],
)
def test_rows_that_are_missing_among_the_acknowledged_are_named(client: Client, ticket: Ticket, meaning: str) -> None:
    participant = Participant(client, ticket)
    participant._sequences["out", 0] = 5
    participant._appender.acknowledged["out", 0].append(Acknowledged(0, 2, 3, 90))
    with pytest.raises(
        AbortAndRetry,
        match=rf"\[SEMEL_NO_RECEIPT\] .*: out-0 acknowledged 3 of 5 records\. .*{meaning}.* run the same work again",
    ):
        _ = participant.receipt


def test_without_rows_there_is_an_empty_receipt(client: Client) -> None:
    with Participant(client, TICKET, stage=4, task=2) as participant:
        participant.write("out", pa.table({"value": pa.array([], pa.string())}))
    assert participant.receipt == Receipt(3, IDENTITY, {}, stage=4, task=2)
