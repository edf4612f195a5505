"""The Java objects that live as long as a Spark application: each is asked for once, and kept.

A call of Java takes 0.1 ms and more, and a name with its package is a call for each part of it. So what a micro-batch
asks for comes as one text: :attr:`Application.json` is the writer of Spark's own REST API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext

__all__ = ["Application", "application_of"]

#: Spark's counter of the events that its status store was to have, and was not given.
_DROPPED = "queue.appStatus.numDroppedEvents"


@dataclass(frozen=True)
class Application:
    """The handles of one application. ``json`` turns a Java object, a Scala collection too, into its text."""

    context: Any
    json: Callable[[Any], str]

    @cached_property
    def status_store(self) -> Any:
        """The status store, behind its pages and its REST API."""
        return self.context.statusStore()

    @cached_property
    def job_view(self) -> Callable[[], Any]:
        """Return a function that makes a view of the jobs in the status store, by their ids."""
        kind = self.status_store.getClass().getClassLoader().loadClass("org.apache.spark.status.JobDataWrapper")
        store = self.status_store.store()
        return lambda: store.view(kind)

    @cached_property
    def tracker(self) -> Any:
        """Spark's status tracker."""
        return self.context.statusTracker()

    @cached_property
    def scheduler(self) -> Any:
        """The scheduler that numbers the jobs."""
        return self.context.dagScheduler()

    @cached_property
    def dropped(self) -> Any:
        """The counter of events that the status store was not given."""
        return self.context.listenerBus().metrics().metricRegistry().counter(_DROPPED)

    @cached_property
    def persisted(self) -> Any:
        """The map of persisted RDDs."""
        return self.context.persistentRdds()

    @cached_property
    def function_patterns(self) -> tuple[Any, ...]:
        """Spark's marks of plans with a function of the user's, or with a subquery."""
        loader = self.context.getClass().getClassLoader()
        marks = loader.loadClass("org.apache.spark.sql.catalyst.trees.TreePattern$").getField("MODULE$").get(None)
        return marks.PYTHON_UDF(), marks.SCALA_UDF(), marks.PLAN_EXPRESSION()

    @cached_property
    def conf(self) -> Mapping[str, str]:
        """The settings that the application was started with: they do not change while it runs."""
        return dict(json.loads(self.json(self.context.conf().getAll())))

    def local_properties(self) -> Mapping[str, str]:
        """Return the local properties of this thread, which its jobs carry."""
        properties: Mapping[str, str] = json.loads(self.json(self.context.getLocalProperties()))
        return properties


_applications: WeakKeyDictionary[SparkContext, Application] = WeakKeyDictionary()


def application_of(context: SparkContext) -> Application:
    """Return the handles of an application."""
    if context not in _applications:
        jvm: Any = context._jvm
        writer = jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper().writeValueAsString
        _applications[context] = Application(context._jsc.sc(), writer)
    return _applications[context]
