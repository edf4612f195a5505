"""``/semel/flows``: what the page shows of each flow. No broker is asked for it."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

from starlette.routing import Route

from semel.mirror.rest.calls import Call, ShownFlow, connector_name, endpoint
from semel.mirror.rest.connectors import state_of
from semel.mirror.stops import WHOLE_TOPIC
from semel.web.calls import Answer

__all__ = ["ROUTES"]


def _flows(call: Call) -> Answer:
    return Answer(body=[_shown(flow) for flow in call.flows])


def _shown(flow: ShownFlow) -> dict[str, Any]:
    meter = flow.meter
    committed, topics = meter.committed_at, _topics(flow)
    return {
        "name": connector_name(flow.config),
        "title": flow.config.title,
        "exactly_once": flow.config.exactly_once,
        "state": state_of(flow),
        "problem": "" if flow.failed is None else str(flow.failed),
        "records": sum(one["records"] for one in topics),
        "records_per_second": sum(one["records_per_second"] for one in topics),
        "lag": sum(one["lag"] for one in topics),
        "committed_s": None if committed is None else time.monotonic() - committed,
        "latency_ms": max((one["latency_ms"] for one in topics if one["latency_ms"] is not None), default=None),
        "topics": topics,
        "groups": _groups(flow),
    }


def _topics(flow: ShownFlow) -> list[dict[str, Any]]:
    """Return the topics by their names on the source: those with a lag, with records, or that are stopped or paused."""
    meter, policy = flow.meter, flow.config.policy
    lag: dict[str, int] = defaultdict(int)
    partitions: dict[str, int] = defaultdict(int)
    for (topic, _), count in meter.lag.items():
        lag[topic] += count
        partitions[topic] += 1
    stopped: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (topic, index), stop in sorted(meter.stopped.items()):
        where = None if index == WHOLE_TOPIC else index
        stopped[topic].append({"partition": where, "tag": stop.tag, "message": stop.message})
    names = sorted({*lag, *stopped, *meter.paused_topics})
    records: dict[str, int] = defaultdict(int)
    per_second: dict[str, float] = defaultdict(float)
    latency: dict[str, list[float]] = defaultdict(list)
    for (target, _), (count, _) in meter.copied.items():
        records[target] += count
    for (target, _), rate in meter.rates.items():
        per_second[target] += rate.records
    for (target, _), late in meter.latencies.items():
        latency[target].append(late.mean)
    shown = []
    for name in names:
        target = policy.format_remote_topic(name)
        shown.append(
            {
                "topic": name,
                "target": target,
                "partitions": partitions[name],
                "records": records[target],
                "records_per_second": per_second[target],
                "lag": lag[name],
                "latency_ms": max(latency[target], default=None),
                "paused": name in meter.paused_topics,
                "stopped": stopped[name],
            }
        )
    return shown


def _groups(flow: ShownFlow) -> list[dict[str, Any]]:
    followed, problems = flow.meter.groups
    latency: dict[str, float] = {}
    for (group, _, _), late in flow.meter.checkpoint_latencies.items():
        latency[group] = max(latency.get(group, 0.0), late.mean)
    shown = []
    for group in sorted({*followed, *problems}):
        one, problem = followed.get(group), problems.get(group)
        shown.append(
            {
                "group": group,
                "partitions": 0 if one is None else one.partitions,
                "inexact": 0 if one is None else one.inexact,
                "latency_ms": latency.get(group),
                "problem": "" if problem is None else f"[SEMEL_{problem.tag}] {problem.message}",
            }
        )
    return shown


ROUTES = [Route("/semel/flows", endpoint(_flows), methods=["GET"])]
