"""A message as the text of a ``.proto`` file."""

from __future__ import annotations

import json
from collections.abc import Iterator

from semel.serdes.protobuf.schema import MessageField, MessageType, known

__all__ = ["FILES", "imports_of", "proto_text"]

#: The files that define known messages.
FILES = {
    "confluent.type.Decimal": "confluent/type/decimal.proto",
    "google.type.Date": "google/type/date.proto",
    "google.type.TimeOfDay": "google/type/timeofday.proto",
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
}
_WRAPPERS = "google/protobuf/wrappers.proto"
_META = "confluent/meta.proto"


def proto_text(package: str, message: MessageType) -> str:
    """Return the text, with the imports that it needs."""
    lines = ['syntax = "proto3";']
    if package:
        lines.append(f"package {package};")
    files = imports_of(message, with_params=True)
    lines += ["", *(f'import "{one}";' for one in files)] if files else []
    return "\n".join([*lines, "", *_message(message, "")]) + "\n"


def imports_of(message: MessageType, *, with_params: bool) -> list[str]:
    """Return the files that a message needs, in order. ``with_params`` has the one of what is said beside types."""
    files = set()
    for one in message.fields:
        if isinstance(one.type, str) and known(one.type):
            files.add(FILES.get(one.type, _WRAPPERS))
        if one.params and with_params:
            files.add(_META)
    for _, inner in message.inner.values():
        files.update(imports_of(inner, with_params=with_params))
    return sorted(files)


def _message(message: MessageType, indent: str) -> Iterator[str]:
    yield f"{indent}message {message.name} {{"
    yield from (f"{indent}  {_field(one)}" for one in message.fields)
    for _, inner in message.inner.values():
        yield from ("", *_message(inner, f"{indent}  "))
    yield f"{indent}}}"


def _field(one: MessageField) -> str:
    kind = one.type if isinstance(one.type, str) else one.type.name
    kind = f".{kind}" if known(kind) else kind
    if one.keys:
        kind = f"map<{one.keys}, {kind}>"
    pairs = ", ".join(f"{{key: {json.dumps(key)}, value: {json.dumps(value)}}}" for key, value in one.params.items())
    said = f" [(confluent.field_meta) = {{params: [{pairs}]}}]" if pairs else ""
    return f"{one.label} {kind} {one.name} = {one.number}{said};".lstrip()
