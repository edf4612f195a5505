"""What a registry or its client raises, as errors by what must be done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from semel.errors import ConfigError, Retriable, SemelError

__all__ = ["RegistryUnusable", "translated"]

_LOGIN = (401, 403)
_INCOMPATIBLE = 409
#: A subject, a version or a schema that the registry does not have.
_MISSING = frozenset({40401, 40402, 40403})
_NOT_FOUND = (404, 405)
#: Confluent's serialisers call these a time-out or a broken connection.
_PASSING = frozenset({408, 429, 500, 502, 503, 504})


class RegistryUnusable(ConfigError):
    """There is no registry at the address, or it refuses the login: no record is at fault, so none is left out."""


@contextmanager
def translated(asked: str, url: str, nothing: str) -> Iterator[None]:
    """Turn what the client raises into errors. ``asked`` is what was asked, for messages."""
    import httpx2
    from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

    shown = url.rpartition("@")[2]
    try:
        yield
    except SchemaRegistryError as refused:
        status, code = refused.http_status_code, refused.error_code
        raise _refused(asked, shown, nothing, status, code, f"{refused.error_message!s:.300}") from None
    except OAuthTokenError as refused:
        raise _refused(asked, shown, nothing, 401, 0, f"{refused.message!s:.300}") from None
    except httpx2.TransportError as away:
        raise Retriable(
            f"the registry at {shown} could not be reached to {asked} ({type(away).__name__}: {away!s:.200})."
            f" {nothing} Start it, or correct schema.registry.url; what asked tries again.",
            tag="REGISTRY_AWAY",
        ) from None


def _refused(asked: str, url: str, nothing: str, status: int, code: int, said: str) -> SemelError:
    if status in _LOGIN:
        return RegistryUnusable(
            f"the registry at {url} refused the login (HTTP {status}: {said}). {nothing} Correct"
            " basic.auth.user.info or bearer.auth.token, or give this login the right to the subject.",
            tag="REGISTRY_LOGIN",
        )
    if status in _PASSING:
        return Retriable(
            f"the registry at {url} could not {asked} (HTTP {status}: {said}). {nothing} Look at the registry; what"
            " asked tries again.",
            tag="REGISTRY_AWAY",
        )
    if status == _INCOMPATIBLE:
        return ConfigError(
            f"the registry at {url} refused to {asked}: it is not compatible with the subject's schemas ({said})."
            f" {nothing} Have the connector give a compatible schema, or change the subject's compatibility.",
            tag="REGISTRY_INCOMPATIBLE",
        )
    if status in _NOT_FOUND and code not in _MISSING:
        return RegistryUnusable(
            f"there is no registry at {url} (HTTP {status}: {said}). {nothing} Correct schema.registry.url.",
            tag="REGISTRY_REFUSED",
        )
    if code in _MISSING:
        return ConfigError(
            f"the registry at {url} could not {asked}, which it does not have ({said}). {nothing} Register it, or set"
            " auto.register.schemas=true.",
            tag="REGISTRY_MISSING",
        )
    return ConfigError(
        f"the registry at {url} refused to {asked} (HTTP {status}: {said}). {nothing} Correct the schema, or"
        " schema.registry.url.",
        tag="REGISTRY_REFUSED",
    )
