"""Subjects: the name that a schema is registered under, by Confluent's strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

__all__ = ["STRATEGIES", "Strategy"]

#: From the topic, whether it is the key, and the name of the record, to the subject.
Strategy = Callable[[str, bool, str], str]


def _of_topic(topic: str, is_key: bool, _: str) -> str:
    return f"{topic}-{'key' if is_key else 'value'}"


def _of_record(_topic: str, _is_key: bool, record: str) -> str:
    return record


def _of_topic_and_record(topic: str, _is_key: bool, record: str) -> str:
    return f"{topic}-{record}"


#: By the last parts of the names of Confluent's classes.
STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "TopicNameStrategy": _of_topic,
        "RecordNameStrategy": _of_record,
        "TopicRecordNameStrategy": _of_topic_and_record,
    }
)
