"""The operators of Spark's plans, and its sequences, as Python lists. Spark promises none of it: the callers pin it."""

from __future__ import annotations

from typing import Any

__all__ = ["class_name", "items", "nodes", "simple_name"]


def nodes(root: Any) -> list[Any]:
    """Return a plan's operators, each before its children.

    An adaptive plan (only ever of a stateless query) shows its input, not its children.
    """
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        found.append(node)
        if simple_name(node) == "AdaptiveSparkPlanExec":
            waiting.append(node.inputPlan())
        waiting.extend(reversed(items(node.children())))
    return found


def items(sequence: Any) -> list[Any]:
    """Return the elements of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]


def class_name(node: Any) -> str:
    """With its package."""
    return str(node.getClass().getName())


def simple_name(node: Any) -> str:
    """Without its package."""
    return class_name(node).rpartition(".")[2]
