"""The messages of a schema in a registry: the text of a ``.proto`` file, or its description in Base64.

Protobuf's own compiler reads the text, in a process of its own: what it says of a wrong text goes into the error.
"""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from semel.extras import needs_extras
from semel.serdes.unfit import Unfit

__all__ = ["messages_of"]

_PROTOBUF = ("any", "api", "descriptor", "duration", "empty", "field_mask", "struct", "timestamp", "type", "wrappers")
_TYPES = ("date", "timeofday", "datetime", "dayofweek", "decimal", "interval", "latlng", "money", "month")
#: Modules of files that each registry has.
_KNOWN = (
    *(f"google.protobuf.{one}_pb2" for one in ("source_context", *_PROTOBUF)),
    *(f"google.type.{one}_pb2" for one in _TYPES),
    "confluent_kafka.schema_registry.confluent.meta_pb2",
    "confluent_kafka.schema_registry.confluent.type.decimal_pb2",
)
_MAIN = "semel_value.proto"
_PATIENCE_S = 60


def messages_of(text: str, named: Mapping[str, str]) -> Any:
    """Return the messages of a file, in their order. ``named`` are the files that it imports, each after its own.

    Raises :class:`Unfit` for what is no such file.
    """
    with needs_extras("Protobuf", "registry"):
        import grpc_tools  # noqa: F401
        from google.protobuf import descriptor_pb2, descriptor_pool
    files = descriptor_pb2.FileDescriptorSet(file=_known_files())
    pool = descriptor_pool.DescriptorPool()
    for one in files.file:
        pool.Add(one)
    try:
        for name, one in (*named.items(), (_MAIN, text)):
            if name not in {known.name for known in files.file}:
                made = _file(name, one, files)
                files.file.append(made)
                pool.Add(made)
        return list(pool.FindFileByName(_MAIN).message_types_by_name.values())
    except (KeyError, TypeError) as error:
        raise Unfit(f"its Protobuf schema cannot be read ({error!s:.200})") from None


def _known_files() -> Iterator[Any]:
    """Yield the files that need no registry, each after those that it imports."""
    from google.protobuf import descriptor_pb2

    done: set[str] = set()

    def files(descriptor: Any) -> Iterator[Any]:
        for one in (*descriptor.dependencies, descriptor):
            if one is not descriptor:
                yield from files(one)
            elif one.name not in done:
                done.add(one.name)
                yield descriptor_pb2.FileDescriptorProto.FromString(one.serialized_pb)

    for name in _KNOWN:
        yield from files(import_module(name).DESCRIPTOR)


def _file(name: str, text: str, known: Any) -> Any:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        made = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError):
        made = _compiled(name, text, known)
    made.name = name
    return made


def _compiled(name: str, text: str, known: Any) -> Any:
    from google.protobuf import descriptor_pb2

    with tempfile.TemporaryDirectory(prefix="semel-protobuf-") as folder:
        root, given, made = Path(folder, "files"), Path(folder, "known"), Path(folder, "made")
        file = root / name
        if not file.resolve().is_relative_to(root.resolve()):
            raise Unfit(f"its Protobuf schema imports {name!r:.100}, which is no name of a file below others")
        file.parent.mkdir(parents=True)
        file.write_text(text)
        given.write_bytes(known.SerializeToString())
        argv = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", f"--descriptor_set_in={given}"]
        done = subprocess.run(
            [*argv, f"--descriptor_set_out={made}", name], capture_output=True, timeout=_PATIENCE_S, check=False
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().replace(_MAIN, "it")
            raise Unfit(f"its Protobuf schema cannot be read ({said:.200})")
        return descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file[0]
