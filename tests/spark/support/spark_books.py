"""Manipulations of Spark's status store: it forgets, has dropped events, or stands still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from semel.spark.jvm import status_store
from tests.spark.support.session import KEPT_STAGES
from tests.support.waiting import PATIENCE_S

_SHUFFLES = 41
#: So many jobs of :func:`many_stages`.
FORGETFUL = KEPT_STAGES // _SHUFFLES + 2


@contextmanager
def job_group(spark: SparkSession, name: str) -> Iterator[None]:
    """Give the jobs of this thread a group of their own, apart from that of earlier tests."""
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", name)
    try:
        yield
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # how it is unset


def many_stages(spark: SparkSession, jobs: int, *, anew: bool = True) -> None:
    """Run jobs of 41 shuffles each. All but the first find them done, unless they are made ``anew``.

    Behind FORGETFUL Spark has forgotten some.
    """
    context: Any = spark.sparkContext
    rows = None
    for _ in range(jobs):
        if rows is None or anew:
            rows = context._jsc.parallelize(context._jvm.java.util.ArrayList(), 1)
            for _ in range(_SHUFFLES):
                rows = rows.repartition(1)
        rows.count()


def many_jobs(spark: SparkSession) -> None:
    """Without tasks; more than Spark keeps by default."""
    for _ in range(1_100):
        spark.sparkContext._jsc.emptyRDD().count()


def drop_events(spark: SparkSession) -> None:
    """Have Spark drop some of what its books are kept by, and take what comes behind it: what comes while they are full
    is dropped as well.
    """
    fill_books(spark)
    context: Any = spark.sparkContext
    _await_empty(context._jsc.sc().listenerBus())


def fill_books(spark: SparkSession) -> None:
    """More comes than they take, posted by a loop in the JVM. The events mean nothing."""
    context: Any = spark.sparkContext
    post = _in_java(
        context, context._jsc.sc().listenerBus(), "post", "java.util.function.IntConsumer", _nothing(context)
    )
    before = status_store.dropped(context)
    while status_store.dropped(context) == before:
        context._jvm.java.util.stream.IntStream.range(0, 100_000).forEach(post)


@contextmanager
def books_held(spark: SparkSession) -> Iterator[None]:
    """Hold back what Spark writes into its status store. It is written afterwards."""
    context: Any = spark.sparkContext
    java, bus = context._jvm.java, context._jsc.sc().listenerBus()
    over = java.util.concurrent.CountDownLatch(1)
    kinds = context._gateway.new_array(java.lang.Class, 1)
    kinds[0] = java.lang.Class.forName("org.apache.spark.scheduler.SparkListenerInterface")
    waiting = _in_java(context, over, "await", "java.lang.reflect.InvocationHandler")
    listener = java.lang.reflect.Proxy.newProxyInstance(kinds[0].getClassLoader(), kinds, waiting)
    bus.addToQueue(listener, "appStatus")
    try:
        # the books stand in front of the listener, and are given one event yet
        bus.post(_nothing(context))
        yield
    finally:
        over.countDown()  # the listener stays, and waits for nothing any more
        _await_empty(bus)


def _in_java(context: Any, owner: Any, method: str, kind: str, *arguments: Any) -> Any:
    """Return a Java function: this method of an object, with these arguments and none of those that it is given."""
    java = context._jvm.java
    handles, wanted = java.lang.invoke.MethodHandles, java.lang.Class.forName(kind)
    [found] = [
        one
        for one in owner.getClass().getMethods()
        if (one.getName(), one.getParameterCount()) == (method, len(arguments))
    ]
    bound = context._gateway.new_array(java.lang.Object, len(arguments))
    for index, argument in enumerate(arguments):
        bound[index] = argument
    [given] = [one for one in wanted.getMethods() if java.lang.reflect.Modifier.isAbstract(one.getModifiers())]
    handle = handles.insertArguments(handles.publicLookup().unreflect(found).bindTo(owner), 0, bound)
    return java.lang.invoke.MethodHandleProxies.asInterfaceInstance(
        wanted, handles.dropArguments(handle, 0, given.getParameterTypes())
    )


def _nothing(context: Any) -> Any:
    """Return an event."""
    return context._jvm.org.apache.spark.scheduler.SparkListenerUnpersistRDD(2_000_000_000)


def _await_empty(bus: Any) -> None:
    bus.waitUntilEmpty(PATIENCE_S * 1000)
