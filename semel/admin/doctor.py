"""Checks of everything that a cluster would refuse to a query, a producer or an operator, without writing: ``semel
doctor``.

Each check gives findings: the subject, the facts, the meaning, and the advice. A check that fails is a finding too, and
the others continue. Not promised: that the cluster stays as it is. Rights that need a write to check (Write on a
transactional id) are reported as not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from semel.admin.check import Check, Result
from semel.admin.doctor_brokers import check_brokers
from semel.errors import ConfigError, DataLoss, SemelError, Unsupported
from semel.read import NO_END, Range, check_ranges
from semel.transaction.ownership import DEFAULT_TIMEOUT_MS
from semel.transaction.progress.log import check_not_moved
from semel.transaction.progress.reader import snapshot
from semel.transaction.progress.record import KafkaSource, Progress
from semel.transaction.progress.settings import look_for_faults
from semel.transaction.progress.topic import DEFAULT_TOPIC, Presence, ProgressTopic
from semel.transaction.takeover import progress_presence
from semel.transaction.transactional_id import check_prefix
from semel.wire.api import authorized_operations, topics
from semel.wire.api.cluster_clock import Clock, controller_clock
from semel.wire.api.describe_transactions import OPEN, describe
from semel.wire.api.offsets import live_members
from semel.wire.client import Client
from semel.wire.error_codes import briefly
from semel.wire.metadata import Topic, named

__all__ = ["QueryPlan", "run_checks"]

_CLOCKS_DIFFER_MS = 5_000


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The query to check: topics that it reads and writes, its group, its prefix, its progress topic."""

    outputs: Sequence[str] = ()
    inputs: Sequence[str] = ()
    group: str | None = None
    prefix: str | None = None
    progress_topic: str = DEFAULT_TOPIC


def run_checks(client: Client, asked: QueryPlan) -> Iterator[Check]:
    """Yield all findings, one after the other.

    Raise :class:`SemelError` if no broker answers, or none accepts this login.
    """
    client.versions()
    looks: list[tuple[str, Callable[[], Iterator[Check]]]] = [
        ("brokers", lambda: check_brokers(client)),
        ("clock", lambda: _clock(client)),
        ("timeouts", lambda: _timeouts(client)),
        ("progress topic", lambda: _progress(client, asked.progress_topic)),
        ("output", lambda: _topics(client, asked.outputs, "output", ("Write", "Read"))),
        ("source", lambda: _topics(client, asked.inputs, "source", ("Read",))),
    ]
    if asked.group is not None:
        looks.append((f"group {asked.group}", lambda: _group(client, str(asked.group))))
    if asked.prefix is not None:
        looks.append((f"prefix {asked.prefix}", lambda: _prefix(client, str(asked.prefix), asked.progress_topic)))
    looks.append(("operator", lambda: _operator(client)))
    for subject, look in looks:
        try:
            yield from look()
        except (ConfigError, Unsupported) as error:
            yield Check(subject, error.message, Result.REFUSED)
        except SemelError as error:
            yield Check(subject, briefly(error.message), Result.UNCHECKED, "Look again when the brokers answer.")


def _clock(client: Client) -> Iterator[Check]:
    try:
        clock = controller_clock(client)
    except (ConfigError, Unsupported) as error:
        yield Check(
            "clock", error.message, Result.UNCHECKED, "Compare this machine's clock with the brokers' by other means."
        )
        return
    yield _compared(clock)


def _compared(clock: Clock) -> Check:
    ahead = "ahead of" if clock.ahead_ms >= 0 else "behind"
    facts = (
        f"that of controller {clock.node} is {abs(clock.ahead_ms):.0f} ms {ahead} this machine's, give or take"
        f" {clock.doubt_ms:.0f} ms"
    )
    if abs(clock.ahead_ms) - clock.doubt_ms <= _CLOCKS_DIFFER_MS:
        return Check("clock", facts, Result.OK)
    return Check(
        "clock",
        facts,
        Result.WARNING,
        "Rows without a timestamp of their own get this machine's, and brokers refuse those too far in their future"
        " (message.timestamp.after.max.ms) and delete old ones. Set the clocks by NTP.",
    )


def _timeouts(client: Client) -> Iterator[Check]:
    config = client.config
    asked = config.transaction_timeout_ms
    try:
        brokers_maximum = topics.broker_config(client, ["transaction.max.timeout.ms"]).get("transaction.max.timeout.ms")
    except ConfigError as error:
        brokers_maximum = None
        yield Check("transaction.max.timeout.ms", error.message, Result.UNCHECKED)
    longest = int(brokers_maximum) if brokers_maximum is not None else DEFAULT_TIMEOUT_MS
    timeout = asked or min(DEFAULT_TIMEOUT_MS, longest)
    origin = "as given" if asked else "semel's choice"
    facts = f"{timeout} ms, {origin}" + (f"; the brokers allow {longest} ms" if brokers_maximum is not None else "")
    if brokers_maximum is not None and timeout > longest:
        advice = "Lower transaction.timeout.ms, or raise the brokers' transaction.max.timeout.ms."
        yield Check("transaction.timeout.ms", facts, Result.REFUSED, advice)
    else:
        yield Check("transaction.timeout.ms", facts, Result.OK)
    if config.delivery_timeout_ms >= timeout:
        advice = (
            "A write could be repeated until its transaction has expired. Keep it well below transaction.timeout.ms."
        )
        yield Check("delivery.timeout.ms", f"{config.delivery_timeout_ms} ms", Result.WARNING, advice)
    else:
        yield Check("delivery.timeout.ms", f"{config.delivery_timeout_ms} ms", Result.OK)


def _progress(client: Client, name: str) -> Iterator[Check]:
    subject = f"progress topic {name}"
    deadline = client.deadline()
    able = authorized_operations.of_topics(client, {name}, deadline)[name]
    if able is None:
        yield _no_progress_topic(client, subject, name)
        return
    if _missing(able, ("Write", "Read")):
        yield _lacking(subject, able, ("Write", "Read"))
        return
    topic = client.topics({name}, deadline)[name]
    faults, unchecked = look_for_faults(client, topic, deadline)
    for fault in faults:
        yield Check(subject, fault, Result.REFUSED, "Change it, or name another with progressTopic.")
    for reason in unchecked:
        yield Check(subject, reason, Result.UNCHECKED)
    if not faults:
        yield from _led(subject, topic, f"{len(topic.partitions)} partitions, and this login may write and read it")


def _no_progress_topic(client: Client, subject: str, name: str) -> Check:
    able = authorized_operations.of_cluster(client)
    if able is not None and "Create" in able:
        return Check(subject, "is not there, and this login may create it", Result.OK, "The first query creates it.")
    why = "is not there; it is not known whether this login may create it"
    advice = (
        "The first query creates it where its login has Create on the topic; else its refusal prints the"
        f" command that does. Name: {name}."
    )
    return Check(subject, why, Result.WARNING, advice)


def _topics(client: Client, names: Sequence[str], role: str, needed: Sequence[str]) -> Iterator[Check]:
    able = authorized_operations.of_topics(client, names) if names else {}
    for name in names:
        subject = f"{role} {name}"
        operations = able[name]
        if operations is None:
            yield Check(subject, "does not exist", Result.REFUSED, "Create it, or correct its name.")
        elif _missing(operations, needed):
            yield _lacking(subject, operations, needed)
        else:
            topic = client.topics({name})[name]
            yield from _led(
                subject,
                topic,
                f"{len(topic.partitions)} partitions, and this login may {' and '.join(needed).lower()} it",
            )


def _led(subject: str, topic: Topic, facts: str) -> Iterator[Check]:
    alone = [(topic.name, index) for index, partition in topic.partitions.items() if partition.leader < 0]
    if alone:
        yield Check(
            subject,
            f"{facts}; no leader: {named(alone)}",
            Result.WARNING,
            "What needs them waits. Bring their brokers back.",
        )
    else:
        yield Check(subject, facts, Result.OK)


def _group(client: Client, group: str) -> Iterator[Check]:
    subject = f"group {group}"
    able = authorized_operations.of_group(client, group)
    if able is not None and "Read" not in able:
        yield _lacking(subject, able, ("Read",))
        return
    members = live_members(client, group)
    if members:
        yield Check(
            subject,
            f"has live members: {', '.join(members[:3])}",
            Result.REFUSED,
            "It is reserved for the query, and their commits would be overwritten. Stop them, or give the query"
            " another kafka.group.id.",
        )
    elif able is None:
        yield Check(subject, "has no members; no broker says who may read it before it exists", Result.UNCHECKED)
    else:
        yield Check(subject, "has no members, and this login may read it", Result.OK)


def _prefix(client: Client, prefix: str, progress_topic: str) -> Iterator[Check]:
    subject = f"prefix {check_prefix(prefix)}"
    description = describe(client, prefix)  # needs Describe, which Write implies
    if description is not None and description.state in OPEN:
        advice = (
            "A query of this prefix is at work, or has died: a start ends its transaction and fences it. `semel"
            " txn describe` shows more."
        )
        yield Check(subject, f"a transaction is open, in state {description.state}", Result.WARNING, advice)
    else:
        yield Check(subject, "no transaction is open", Result.OK)
    yield Check(
        f"Write on {subject}",
        "no broker says so before something is written",
        Result.UNCHECKED,
        "The first start finds out, and names it.",
    )
    able = authorized_operations.of_topics(client, {progress_topic})[progress_topic]
    if able is None or "Read" in able:
        yield _resumes(client, prefix, progress_topic)
    else:
        yield Check(f"progress of {prefix}", f"only who may read {progress_topic} sees it", Result.UNCHECKED)
    yield Check(
        "checkpoint",
        "it is not looked at",
        Result.UNCHECKED,
        "The first batch finds out whether it fits the progress, and says what to do.",
    )


def _resumes(client: Client, prefix: str, progress_topic: str) -> Check:
    """Check that the next rows for a query of this prefix still exist, as its source does at a start.

    It reads the newest progress that this broker has: good enough for people, but no basis for decisions.
    """
    subject = f"progress of {prefix}"
    topic = ProgressTopic(client, prefix, "query", progress_topic)
    trace = progress_presence(client, prefix, topic, client.deadline())
    if trace is Presence.LOST:
        facts = (
            f"transactions of the prefix are remembered, and no progress of its query is in {progress_topic}: it"
            " was lost (PROGRESS_LOST)"
        )
        return Check(
            subject,
            facts,
            Result.REFUSED,
            "Name the right --progress-topic, or set it, or forget it on purpose: `semel progress reset`.",
        )
    newest = _newest(client, topic, prefix) if trace is Presence.COMPLETE else None
    if newest is None:
        return Check(subject, "there is none: a query begins by its startingOffsets", Result.OK)
    here = [source for source in newest.sources if isinstance(source, KafkaSource) and source.cluster == client.cluster]
    ranges = [
        Range(name, at.id, index, end, NO_END)
        for source in here
        for name, at in source.topics.items()
        for index, end in at.end.items()
    ]
    try:
        check_ranges(client, ranges, fail_on_data_loss=True)
    except DataLoss as error:
        return Check(
            subject, error.message, Result.REFUSED, "So a start is refused, unless its source has failOnDataLoss=false."
        )
    batch = f"batch {newest.batch}" if newest.batch is not None else "no batch: it was set by hand"
    others = (
        "" if len(here) == len(newest.sources) else " in this cluster by semel's sources (others are not looked at)"
    )
    return Check(subject, f"{batch}; what is to be read next{others} is there", Result.OK)


def _newest(client: Client, topic: ProgressTopic, prefix: str) -> Progress | None:
    settled = snapshot(client, topic, client.deadline())
    check_not_moved(settled, prefix)
    return settled.newest.progress if settled.newest is not None else None


def _operator(client: Client) -> Iterator[Check]:
    able = authorized_operations.of_cluster(client)
    facts = (
        "no Describe on the cluster, and so no Alter" if able is None else f"on the cluster: {', '.join(sorted(able))}"
    )
    if able is not None and "Alter" in able:
        yield Check("operator", facts, Result.OK)
    else:
        yield Check(
            "operator",
            facts,
            Result.WARNING,
            "Alter on the cluster is needed to write a lost marker, and nothing else is by semel.",
        )


def _missing(able: Collection[str], needed: Sequence[str]) -> list[str]:
    return [operation for operation in needed if operation not in able]


def _lacking(subject: str, able: Collection[str], needed: Sequence[str]) -> Check:
    missing = " and ".join(_missing(able, needed))
    facts = f"the right {missing} is missing" + (
        f" (there is {', '.join(sorted(able))})" if able else ", and it may not be there at all"
    )
    return Check(subject, facts, Result.REFUSED, f"Grant {missing}, or use a login that has it.")
