"""One fencing round for a connector before a new generation of its tasks starts (KIP-618).

The ids of the generation before are those of its task-count record. A worker without a config topic has none, and asks
the cluster which ids it knows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from semel.config import ClientConfig
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.stores.config_format import count_record
from semel.connect.stores.configs import ConfigStore
from semel.errors import Retriable, SemelError
from semel.steps import HerderStep, reached
from semel.transaction.connect_tasks import task_id, task_numbers
from semel.wire.api.transactions import fence
from semel.wire.client import Client

__all__ = ["fence_predecessors", "fence_tasks"]

log = logging.getLogger("semel.connect")


def fence_predecessors(
    worker: WorkerConfig, store: ConfigStore, config: ConnectorConfig, tasks: int, before: str = ""
) -> None:
    """Fence the generation before by the connector's admin client, then write how many tasks the newest one has.

    Only a worker with exactly once does it, once a generation. The count comes after the fencing: a worker that dies
    between them leaves the generation pending, and its ids are fenced again. ``before`` says what was to follow, for
    the error. Raises :class:`Retriable` where the cluster does not fence, and what :meth:`ConfigStore.write` raises.
    """
    connector = config.name
    if not worker.exactly_once or connector not in store.now.pending:
        return
    try:
        _fence_generation(worker, store, config, tasks)
    except SemelError as error:
        if not before:
            raise
        raise Retriable(
            f"Failed to perform zombie fencing for connector {connector} prior to {before}: {error.message}",
            tag="FENCING",
        ) from error
    reached(HerderStep.PREDECESSORS_FENCED, connector)
    store.write([count_record(connector, tasks)])
    reached(HerderStep.COUNT_WRITTEN, connector)


def fence_tasks(worker: WorkerConfig, connector: str, tasks: list[int], admin: Mapping[str, str]) -> None:
    """Fence tasks that did not end by themselves: what one left open would hold readers back until its timeout.

    ``admin`` are the properties of the connector's admin client.
    """
    if not tasks or not worker.exactly_once:
        return
    with Client(ClientConfig.parse(admin)) as client:
        for name, error in _not_fenced(client, worker, connector, tasks):
            log.warning("%s was not fenced; what it left open ends after its transaction timeout: %s", name, error)


def _fence_generation(worker: WorkerConfig, store: ConfigStore, config: ConnectorConfig, tasks: int) -> None:
    connector = config.name
    count = store.now.counts.get(connector)
    with Client(ClientConfig.parse(config.clients.admin)) as client:
        if count is None and store.topic is None:
            numbers = task_numbers(client, worker.group_id, connector)
        elif count is None or (count == 1 and tasks == 1):  # the one task takes the same id over by itself
            numbers = []
        else:
            numbers = list(range(count))
        for name, error in _not_fenced(client, worker, connector, numbers):
            raise Retriable(
                f"Failed to perform zombie fencing for {name!r}: {error.message} Nothing was started. It is tried"
                " again.",
                tag="FENCING",
            ) from error


def _not_fenced(
    client: Client, worker: WorkerConfig, connector: str, tasks: Sequence[int]
) -> Iterator[tuple[str, SemelError]]:
    """Fence these tasks one after the other. Yield the id and the error of each for which that failed."""
    for number in tasks:
        name = task_id(worker.group_id, connector, number)
        try:
            fence(client, name)
        except SemelError as error:
            yield name, error
