"""Settings by their names: what each takes, and one reader with one wording for all products.

- ``table``: a :class:`Setting` says the type, the default, the allowed values and the sentence of documentation.
- ``fields``: dataclasses whose fields are settings.
- ``reader``: reads texts by a table, and refuses what is missing, wrong or unknown.
- ``unused``: names that are known and change nothing here.
- ``properties_file``: a file of properties in Java's form.
- ``own_classes``: classes of the user's own, by their Python names or by entry points.
- ``providers``: Kafka's config providers: what stands for ``${provider:path:key}`` in a value.
"""

from __future__ import annotations

from semel.settings.reader import NOTHING, missing, nearest, not_yet, read_settings, read_value, unknown
from semel.settings.table import INT_MAX, REQUIRED, Fault, Setting, WrongValue, as_text, split_list

__all__ = [
    "INT_MAX",
    "NOTHING",
    "REQUIRED",
    "Fault",
    "Setting",
    "WrongValue",
    "as_text",
    "missing",
    "nearest",
    "not_yet",
    "read_settings",
    "read_value",
    "split_list",
    "unknown",
]
