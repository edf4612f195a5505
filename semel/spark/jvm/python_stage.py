"""``DataFrame.mapInArrow`` in four calls of Java, where PySpark makes thirty-five: a batch has one or two such stages.

Only the pickled function differs from batch to batch. The other parts of a stage are made by PySpark itself, once, and
kept. Where this Spark has them otherwise, and for a function that PySpark would broadcast, PySpark's own way is taken:
both give the same plan.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

__all__ = ["map_in_arrow"]

log = logging.getLogger("semel.spark")

Stage = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

#: Half of what PySpark ships with the plan: larger functions are broadcast.
_MOST_BYTES = 512 << 10
#: What PySpark pickles functions with; it has no types.
_SERIALIZER: Any = CloudPickleSerializer


@dataclass(frozen=True, slots=True)
class _Template:
    """The parts of a stage that are the same for each batch."""

    function: Any
    function_parts: Sequence[Any]
    udf: Any
    udf_parts: Sequence[Any]
    columns: Any

    @classmethod
    def make(cls, context: SparkContext, schema: t.StructType, columns: Sequence[str]) -> _Template:
        """Have PySpark make a stage, and take it apart: Spark's case classes name their parts by position."""
        jvm: Any = context._jvm
        kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
        udf = UserDefinedFunction(_nothing, returnType=schema, name="semel", evalType=kind)._judf
        function = udf.func()
        return cls(
            jvm.SimplePythonFunction,
            [function.productElement(index) for index in range(1, function.productArity())],
            jvm.org.apache.spark.sql.execution.python.UserDefinedPythonFunction,
            [udf.productElement(index) for index in range(2, udf.productArity())],
            jvm.PythonUtils.toSeq([f.col(name)._jc for name in columns]),
        )


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take the place of a function."""
    return iter(())


_templates: WeakKeyDictionary[SparkContext, dict[object, _Template]] = WeakKeyDictionary()


def map_in_arrow(df: DataFrame, stage: Stage, schema: t.StructType, columns: Sequence[str]) -> DataFrame:
    """Return what ``df.mapInArrow(stage, schema)`` returns. ``columns`` are all columns of ``df``."""
    context = df.sparkSession.sparkContext
    command: bytes = _SERIALIZER().dumps((stage, schema))
    if len(command) <= _MOST_BYTES:
        try:
            return _map_in_arrow(df, command, _template(context, schema, columns))
        except (Py4JError, AttributeError, TypeError, ValueError) as error:
            log.debug("a stage is made by PySpark's own way (%s: %s)", type(error).__name__, error)
    return df.mapInArrow(stage, schema)


def _template(context: SparkContext, schema: t.StructType, columns: Sequence[str]) -> _Template:
    templates = _templates.setdefault(context, {})
    # what PySpark ships beside a function: the environment of workers, and the files that were added
    beside = tuple(sorted(context.environment.items())), tuple(context._python_includes or ())
    key = (schema.json(), tuple(columns), beside)
    if key not in templates:
        templates[key] = _Template.make(context, schema, columns)
    return templates[key]


def _map_in_arrow(df: DataFrame, command: bytes, template: _Template) -> DataFrame:
    function = template.function(bytearray(command), *template.function_parts)
    udf = template.udf("semel", function, *template.udf_parts)
    return DataFrame(df._jdf.mapInArrow(udf.apply(template.columns), False, None), df.sparkSession)
