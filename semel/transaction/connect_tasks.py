"""The transactional ids of Kafka Connect's source tasks, as Kafka Connect names them."""

from __future__ import annotations

import re

from semel.wire.api.describe_transactions import list_transactions
from semel.wire.client import Client

__all__ = ["task_id", "task_numbers"]


def task_id(group_id: str, connector: str, task: int) -> str:
    """Return the transactional id of a task of a connector in the Connect cluster ``group_id``."""
    return f"{group_id}-{connector}-{task}"


def task_numbers(client: Client, group_id: str, connector: str) -> list[int]:
    """Return the numbers of a connector's tasks whose ids the cluster knows."""
    pattern = re.compile(re.escape(task_id(group_id, connector, 0)[:-1]) + r"(\d+)")
    matches = [pattern.fullmatch(name) for name in list_transactions(client)]
    return sorted(int(match[1]) for match in matches if match)
