"""The brokers in ``semel doctor``: releases, features, two-phase commit."""

from __future__ import annotations

from collections.abc import Iterator

from semel.admin.check import Check, Result
from semel.errors import SemelError, Unsupported
from semel.wire.api import authorized_operations, topics
from semel.wire.api_versions import Versions
from semel.wire.client import Client
from semel.wire.error_codes import briefly

__all__ = ["check_brokers"]

#: Releases of which some lose a marker (KAFKA-20734). The third number, which decides, is not visible.
_LOSE_MARKERS = ("4.3", "4.4")


def check_brokers(client: Client) -> Iterator[Check]:
    """Check each broker, and the features that all of them offer."""
    releases: set[str | None] = set()
    for node in sorted(client.brokers()):
        try:
            versions = client.connect(node).versions
        except SemelError as error:
            yield Check(
                f"broker {node}", briefly(error.message), Result.WARNING, "What it leads waits for it. Bring it back."
            )
            continue
        releases.add(versions.release)
        yield _broker(node, versions)
    if releases & {*_LOSE_MARKERS, None}:
        yield _lost_markers(client)
    yield _two_phase_commit(client)


def _broker(node: int, versions: Versions) -> Check:
    subject = f"broker {node} ({versions.address})"
    level = versions.features.get("transaction.version", 0)
    release = f"Kafka {versions.release}" if versions.release is not None else "a Kafka whose release is not known here"
    metadata = versions.supported.get("metadata.version")
    facts = (
        f"{release} (metadata.version up to {metadata}), transaction.version={level}, WriteTxnMarkers"
        f" {versions.markers}"
    )
    try:
        versions.check_shared_transactions()
    except Unsupported as error:
        return Check(subject, facts, Result.REFUSED, error.message)
    if versions.takes_late_markers:
        return Check(
            subject,
            facts,
            Result.OK,
            "Before 4.2 a late marker can end half of the next transaction. semel skips an epoch between transactions,"
            " which takes one more request.",
        )
    return Check(subject, facts, Result.OK)


def _two_phase_commit(client: Client) -> Check:
    """Check that every broker offers it: each coordinates some of the ids."""
    setting, unstable = "transaction.two.phase.commit.enable", "unstable.api.versions.enable"
    subject = "two-phase commit"
    without: list[int] = []
    for node in sorted(client.brokers()):
        try:
            offered = client.connect(node).versions.offers_two_phase_commit
            enabled = offered and topics.config_of_broker(client, node, [setting]).get(setting) == "true"
        except SemelError as error:
            return Check(subject, f"broker {node}: {briefly(error.message)}", Result.UNCHECKED)
        if not enabled:
            without.append(node)
    if not without:
        return Check(subject, "every broker takes transactions that only a decision ends", Result.OK)
    return Check(
        subject,
        f"broker {', '.join(map(str, without))} does not take transactions that only a decision ends",
        Result.OK,
        f'two_phase="bounded" works all the same. For two_phase=True set {setting}=true and {unstable}=true on every'
        " broker.",
    )


def _lost_markers(client: Client) -> Check:
    facts = (
        "4.3.0 to 4.4.0 lose the marker of a partition that has no leader while a transaction ends: its rows stay"
        " open, and readers wait there. It is not known whether this is one of them"
    )
    able = authorized_operations.of_cluster(client) or frozenset()
    if "Alter" in able:
        return Check(
            "KAFKA-20734",
            facts,
            Result.OK,
            "semel writes a lost marker itself: this login has Alter on the cluster, which that needs.",
        )
    return Check(
        "KAFKA-20734",
        facts,
        Result.WARNING,
        "semel writes a lost marker itself where its login has Alter on the cluster, which this one has not: then the"
        " query stops and names the partition, for an administrator.",
    )
