"""Signed requests between workers (KIP-507, KIP-618): fence the tasks of a connector, read its tasks again.

Here the leader runs all tasks, so no worker of semel asks. Tools that know Kafka Connect's requests may.
"""

from __future__ import annotations

from starlette.routing import Route

from semel.connect.rest.calls import Answer, BadBody, Call, endpoint, texts
from semel.connect.signatures import check_signature

__all__ = ["ROUTES"]


def _fence(call: Call) -> Answer:
    _check(call)
    call.herder.fence(call.name)
    return Answer(204)


def _tasks(call: Call) -> Answer:
    """Have the leader look again. Its own view of a connector's tasks counts."""
    given = call.json("List")
    if not isinstance(given, list):
        raise BadBody("Cannot deserialize value of type `List` from the body")
    for one in given:
        texts(one, "Map")
    _check(call)
    call.herder.look_again(call.name)
    return Answer(204)


def _check(call: Call) -> None:
    check_signature(call.headers, call.body, call.herder.session_key, call.worker.config.verification_algorithms)


ROUTES = [
    Route("/connectors/{name}/fence", endpoint(_fence), methods=["PUT"]),
    Route("/connectors/{name}/tasks", endpoint(_tasks), methods=["POST"]),
]
