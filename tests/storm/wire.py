"""Faults on the wire for as long as it storms: requests and answers lost, cut, held and repeated, of an API at a
time.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Mapping
from random import Random

from semel.testing.proxy.fault_proxy import FaultProxy
from semel.testing.proxy.faults import Fault

__all__ = ["APIS", "FAULTS", "OF_A_GROUP", "OF_TWO_PHASES", "Wire"]

#: Each with how often it is chosen. Fetch and ListOffsets come all the time, so that a fault of theirs is met at once.
APIS = {
    "Produce": 6,
    "EndTxn": 5,
    "AddPartitionsToTxn": 4,
    "TxnOffsetCommit": 4,
    "DescribeProducers": 2,
    "Fetch": 2,
    "ListOffsets": 1,
    "Metadata": 1,
    "FindCoordinator": 1,
    "InitProducerId": 2,
    "OffsetFetch": 1,
    "WriteTxnMarkers": 1,
    "DescribeTransactions": 1,
}
#: With what members of a group ask.
OF_A_GROUP = {**APIS, "JoinGroup": 3, "SyncGroup": 3, "Heartbeat": 2, "LeaveGroup": 1}
#: With what recoveries of two-phase commit ask.
OF_TWO_PHASES = {**APIS, "ListTransactions": 2, "InitProducerId": 6}
FAULTS = ("drop_request", "drop_reply", "cut", "cut_reply", "delay_request", "delay_reply", "repeat", "repeat_late")
#: A repeated InitProducerId is another owner who takes the id: the one that lives would be fenced each time.
_NOT_REPEATED = "InitProducerId"
#: Faults that wait for their request at the same time; the oldest is withdrawn for a new one.
_PENDING = 12


class Wire:
    """Sets up one fault at a time. ``happened`` counts those that took effect, by what was done to which API."""

    def __init__(self, proxy: FaultProxy, apis: Mapping[str, int] = APIS) -> None:
        self.happened: Counter[str] = Counter()
        self.by_api: Counter[str] = Counter()
        self._proxy, self._apis = proxy, apis
        self._pending: deque[tuple[str, str, Fault]] = deque()

    def strike(self, random: Random) -> None:
        """One more fault. It takes from ``random`` the same number of values, whatever it does."""
        (api,) = random.choices(list(self._apis), list(self._apis.values()))
        kind, n, seconds = random.choice(FAULTS), random.randint(1, 4), random.choice((0.2, 1.0, 3.0, 8.0))
        if api == _NOT_REPEATED and kind.startswith("repeat"):
            kind = "drop_reply"
        while len(self._pending) >= _PENDING:
            self._forget()
        self._pending.append((kind, api, self._fault(kind, api, n, seconds)))

    def calm(self) -> None:
        """Withdraw what is pending."""
        while self._pending:
            self._forget()

    def _forget(self) -> None:
        kind, api, fault = self._pending.popleft()
        self._proxy.withdraw(fault)
        if fault.happened.is_set():
            self.happened[kind] += 1
            self.by_api[api] += 1

    def _fault(self, kind: str, api: str, n: int, seconds: float) -> Fault:
        proxy = self._proxy
        if kind == "drop_request":
            return proxy.drop_request(api, n)
        if kind == "drop_reply":
            return proxy.drop_reply(api, n)
        if kind in ("cut", "cut_reply"):
            return proxy.cut(api, n, reply=kind == "cut_reply")
        if kind == "delay_request":
            return proxy.delay_request(api, n, seconds=seconds)
        if kind == "delay_reply":
            return proxy.delay_reply(api, n, seconds=seconds)
        if kind == "repeat":
            return proxy.repeat_request(api, n)
        # the copy comes when the fault is withdrawn: some requests of the same connection, and maybe transactions,
        # later
        return proxy.repeat_request(api, n, later=threading.Event())
