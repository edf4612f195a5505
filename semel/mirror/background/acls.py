"""Access rights of topics, as MirrorMaker 2 syncs them: to read a topic becomes to read its copy.

Rights by the whole name of a mirrored topic are created on the target, every now and then. None is ever taken away
there. It is beside the copy: what does not go well is logged, and tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from semel.config import ClientConfig
from semel.mirror.background.periodic import PeriodicWork
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.topics import wants
from semel.steps import MirrorStep, reached
from semel.wire.api.acls import ALL_TOPICS, Acl, Operation, Permission, create, topic_acls
from semel.wire.client import Client

__all__ = ["AclFollower", "target_acls"]

log = logging.getLogger("semel.mirror")


def target_acls(config: FlowConfig, acls: Iterable[Acl]) -> list[Acl]:
    """Return the rights on target topics that follow from those on the source.

    Who may write there does not write here, since the mirror does: a right to write is left out, and one to do all
    becomes one to read. What is denied stays denied. A right on all topics is none of a mirrored topic.
    """
    rights = []
    for acl in acls:
        allows = acl.permission == Permission.ALLOW
        if acl.topic == ALL_TOPICS or not wants(config, acl.topic) or (allows and acl.operation == Operation.WRITE):
            continue
        operation = Operation.READ if allows and acl.operation == Operation.ALL else acl.operation
        rights.append(replace(acl, topic=config.policy.format_remote_topic(acl.topic), operation=operation))
    return rights


class AclFollower:
    """Keeps the rights of a flow's target topics, in the interval that the file names."""

    def __init__(self, config: FlowConfig, id: str) -> None:
        self._config, self._id = config, id
        self._source = Client(ClientConfig.parse(config.source))
        self._target = Client(ClientConfig.parse(config.target))
        self._said = False
        lacking = "access rights are not synced"
        self._work = PeriodicWork(config.title, lacking, self._sync, self._release, config.acls_s, at_once=True)

    def start(self) -> None:
        """Sync from now on, in a thread of its own."""
        if self._config.acls_s:
            self._work.start()

    def follow(self) -> None:
        """Sync once, now, if the file asks for it."""
        if self._config.acls_s:
            self._work.do()

    def close(self) -> None:
        """End the thread, and close the clients."""
        self._work.close()

    def _release(self) -> None:
        self._source.close()
        self._target.close()

    def _sync(self) -> None:
        acls = topic_acls(self._source)
        if acls is None:
            if not self._said:
                log.info("%s: the source has no authorizer, so there are no access rights to sync", self._config.title)
            self._said = True
            return
        wanted = target_acls(self._config, acls)
        if wanted:
            create(self._target, wanted)
            reached(MirrorStep.ACLS_SYNCED, self._id)
