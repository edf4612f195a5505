"""The config topic: connectors, their tasks and what they are wanted to be. The leader alone writes it.

It is read once, up to the session key that the new leader writes as its claim; from then on what the leader writes is
what there is. Without a topic all of it is in memory, and gone with the worker.
"""

from __future__ import annotations

import base64
import secrets
import threading
import time
from collections.abc import Sequence

from semel.connect.leader import Leader
from semel.connect.stores import config_format
from semel.connect.stores.config_format import Configs, Record
from semel.connect.stores.settled import read_settled
from semel.errors import AbortAndRetry, Retriable, SemelError
from semel.wire.client import Client

__all__ = ["ConfigStore"]


class ConfigStore:
    """The stored connectors. Reading them asks no broker."""

    def __init__(self, client: Client, leader: Leader, topic: str | None) -> None:
        self._client, self._leader, self.topic = client, leader, topic
        #: Held by a writer whose record depends on what is stored now.
        self.lock = threading.RLock()
        self.now = Configs()
        self._stale = False
        #: What requests between workers are signed by, Base64; None before there is one.
        self.session_key: str | None = None
        self._key_made = 0.0

    def read(self) -> None:
        """Read all of it, up to a session key of our own. Raises :class:`Fenced` where another worker leads."""
        if self.topic is None:
            return
        claim = self._claim()
        deadline = self._client.deadline(self._client.config.delivery_timeout_ms)
        records = read_settled(
            self._client, (self.topic, 0), claim, deadline, claim_again=self._claim, subject="a configuration"
        )
        found = Configs()
        for record in records:
            found.apply(record.key, record.value)
        self.now, self._stale = found, False

    def write(self, records: Sequence[Record]) -> None:
        """Write records together, and take them.

        Raises :class:`Fenced` where another worker leads, and :class:`Retriable` where the topic could not be written.
        """
        with self.lock:
            if self._stale:
                self.read()
            if self.topic is not None:
                try:
                    self._leader.write(self.topic, records)
                except SemelError as error:
                    if not isinstance(error, Retriable | AbortAndRetry):
                        raise
                    self._stale = True
                    raise Retriable(
                        f"the config topic could not be written: {error.message} This may be transient, and the request"
                        " is safe to retry.",
                        tag="CONFIG_TOPIC",
                    ) from error
            else:
                self._leader.check()
            for key, value in records:
                self.now.apply(key, value)

    def check_leader(self) -> None:
        """Raise :class:`Fenced` where another worker leads: what this one knows may be of before."""
        self._leader.check()

    def renew_key(self, ttl_ms: int) -> None:
        """Write another session key once the last one is as old as this. Raises what :meth:`write` raises."""
        if self.topic is not None and time.monotonic() - self._key_made >= ttl_ms / 1000:
            with self.lock:
                self._claim()

    def _claim(self) -> int:
        assert self.topic is not None
        key = base64.b64encode(secrets.token_bytes(32)).decode()
        at = self._leader.write(self.topic, [config_format.session_key_record(key, int(time.time() * 1000))])
        self.session_key, self._key_made = key, time.monotonic()
        return at
