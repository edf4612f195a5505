"""The config topic: connectors, their tasks and what they are wanted to be. The leader alone writes it.

It is read once, up to the session key that the new leader writes as its claim; from then on what the leader writes is
what there is. A leader that has taken its id again reads it again, and leads no more if another one has written to it.
Without a topic all of it is in memory, and gone with the worker.
"""

from __future__ import annotations

import base64
import secrets
import threading
import time
from collections.abc import Sequence

from semel.connect.stores import config_format
from semel.connect.stores.config_format import Configs, Record
from semel.connect.worker.leader import IdTaken, Leader
from semel.errors import AbortAndRetry, Retriable
from semel.read.claimed_log import read_settled
from semel.wire.client import Client

__all__ = ["ConfigStore"]


class ConfigStore:
    """The stored connectors. Reading them asks no broker."""

    def __init__(self, client: Client, leader: Leader, topic: str | None) -> None:
        self._client, self._leader, self.topic = client, leader, topic
        #: Held by a writer whose record depends on what is stored now.
        self.lock = threading.RLock()
        self.now = Configs()
        #: Records of a write whose end is not known: the topic is read again before the next one.
        self._unsettled: list[Record] | None = None
        #: Set while another leader may have written.
        self._doubted = False

    def read(self) -> None:
        """Read all of it, up to a session key of our own. Raises :class:`Fenced` where another worker leads."""
        if self.topic is None:
            return
        self.now, self._unsettled = self._found(), None

    def _found(self) -> Configs:
        """Return what the topic holds, up to a session key of our own."""
        assert self.topic is not None
        claim = self._claim()
        deadline = self._client.deadline(self._client.config.delivery_timeout_ms)
        records = read_settled(
            self._client, (self.topic, 0), claim, deadline, claim_again=self._claim, subject="a configuration"
        )
        found = Configs()
        for record in records:
            found.apply(record.key, record.value)
        return found

    def write(self, records: Sequence[Record]) -> None:
        """Write records together, and take them.

        Raises :class:`Fenced` where another worker leads, and :class:`Retriable` where the topic could not be written.
        """
        with self.lock:
            if self.topic is None:
                self.check_leader()
            else:
                self._write(self.topic, records)
            for key, value in records:
                self.now.apply(key, value)

    def _write(self, topic: str, records: Sequence[Record]) -> None:
        try:
            self.check_leader()
            if self._unsettled is not None:
                self.read()
            self._unsettled = list(records)
            self._leader.write(topic, records)
            self._unsettled = None
        except (Retriable, AbortAndRetry) as error:
            raise Retriable(
                f"the config topic could not be written: {error.message} This may be transient, and the request is safe"
                " to retry.",
                tag="CONFIG_TOPIC",
            ) from error

    def check_leader(self) -> None:
        """Prove that this worker leads. Take the leader's id again if the group says that it does.

        Raises :class:`Fenced` where another worker leads: what this one knows may be of before. Raises
        :class:`Retriable` where that is not known now.
        """
        with self.lock:
            try:
                self._leader.check()
            except IdTaken:
                self._doubted = True
                self._leader.take_again()
            if self._doubted:
                self._check_unchanged()
                self._doubted = False

    def _check_unchanged(self) -> None:
        """Refuse to lead on where another leader has written to the topic: its tasks may be others."""
        if self.topic is None:
            return
        found = self._found()
        known = next((one for one in (self.now, self.now.after(self._unsettled or ())) if found.same_as(one)), None)
        if known is None:
            self._leader.give_up()
        self.now, self._unsettled = known, None

    def _claim(self) -> int:
        assert self.topic is not None
        key = base64.b64encode(secrets.token_bytes(32)).decode()
        return self._leader.write(self.topic, [config_format.session_key_record(key, int(time.time() * 1000))])
