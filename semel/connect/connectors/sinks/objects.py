"""Objects of a bucket of S3, by Amazon's client: made only where none is.

A store that ignores this condition (``If-None-Match: *``) is refused.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from semel.connect.api import Setting
from semel.errors import ConfigError
from semel.extras import needs_extras
from semel.settings import NOTHING

__all__ = ["S3", "Objects", "bucket_of", "check_client"]

#: Settings of sinks that write to a bucket, by the names of the S3 sink connector.
S3: Mapping[str, Setting] = MappingProxyType(
    {
        "store.url": Setting(str, default=None, documentation="The address of a store that speaks S3's API."),
        "s3.region": Setting(str, default=None),
        "aws.access.key.id": Setting(str, default=None),
        "aws.secret.access.key": Setting(str, default=None, secret=True),
    }
)
_EXISTS, _CONFLICT, _MISSING = "PreconditionFailed", "ConditionalRequestConflict", ("NoSuchKey", "404", "NotFound")


def bucket_of(path: str) -> tuple[str, str] | None:
    """Return the bucket and the prefix of a path; None for one of another system."""
    url = urlsplit(path)
    return (url.netloc, url.path.strip("/")) if url.scheme == "s3" and url.netloc else None


def check_client(path: str) -> None:
    """Raise :class:`ConfigError` if a path is of a bucket, and the package for it is missing."""
    if bucket_of(path) is not None:
        _client()


def _client() -> tuple[Any, Any]:
    with needs_extras("a sink on S3", "connect,s3", NOTHING):
        import boto3
        import botocore.config
        import botocore.exceptions
    return boto3, botocore


class Objects:
    """The objects of a bucket, by Amazon's client. Raises ``OSError``; ``ConnectionError`` where it may pass."""

    def __init__(self, bucket: str, settings: Mapping[str, Any]) -> None:
        boto3, botocore = _client()
        self._bucket, self._errors = bucket, botocore.exceptions
        config = botocore.config.Config(
            retries={"mode": "standard", "max_attempts": 5},
            connect_timeout=10,
            request_checksum_calculation="when_required",  # other stores than Amazon's lack the newer ones
            response_checksum_validation="when_required",
        )
        try:
            self._client = boto3.client(
                "s3",
                endpoint_url=settings["store.url"],
                region_name=settings["s3.region"],
                aws_access_key_id=settings["aws.access.key.id"],
                aws_secret_access_key=settings["aws.secret.access.key"],
                config=config,
            )
        except (ValueError, botocore.exceptions.BotoCoreError) as error:
            raise ConfigError(
                f"the store of path cannot be used: {error!s:.200}. {NOTHING} Correct store.url, s3.region, or"
                " the login.",
                tag="FILE_SINK",
            ) from None

    def make(self, key: str, data: bytes, metadata: Mapping[str, str]) -> bool:
        """Make an object. Return False if there is one."""
        with self._asking(key):
            try:
                self._client.put_object(
                    Bucket=self._bucket, Key=key, Body=data, Metadata=dict(metadata), IfNoneMatch="*"
                )
            except self._errors.ClientError as error:
                if _code(error) != _EXISTS:
                    raise
                return False
        return True

    def check_conditional(self, key: str) -> None:
        """Make an object twice. Raise :class:`ConfigError` for a store that makes it where it is."""
        data = self.read(key)
        if data is None:
            data = b"semel\n"
            self.make(key, data, {})
        if self.make(key, data, {}):
            raise ConfigError(
                f"the store of bucket {self._bucket:.100} replaces an object although the request says If-None-Match."
                f" {NOTHING} Use a store with conditional writes: exactly once is not possible without them.",
                tag="FILE_SINK",
            )

    def read(self, key: str) -> bytes | None:
        """Return an object's bytes; None if there is none."""
        with self._asking(key):
            try:
                return bytes(self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read())
            except self._errors.ClientError as error:
                if _code(error) not in _MISSING:
                    raise
                return None

    def metadata(self, key: str) -> Mapping[str, str]:
        """Return what was said of an object as it was made."""
        with self._asking(key):
            return dict(self._client.head_object(Bucket=self._bucket, Key=key)["Metadata"])

    def keys(self, prefix: str) -> list[str]:
        """Return the names of all objects below a prefix."""
        with self._asking(prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
            return [one["Key"] for page in pages for one in page.get("Contents", ())]

    def remove(self, key: str) -> None:
        """Remove an object, if there is one."""
        with self._asking(key):
            self._client.delete_object(Bucket=self._bucket, Key=key)

    @contextmanager
    def _asking(self, key: str) -> Iterator[None]:
        """Turn the client's errors into those of files."""
        try:
            yield
        except self._errors.ClientError as error:
            status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            passes = status >= 500 or _code(error) == _CONFLICT
            text = f"{_code(error)} for s3://{self._bucket}/{key:.200}"
            raise (ConnectionError(errno.EIO, text) if passes else OSError(errno.EACCES, text)) from error
        except self._errors.BotoCoreError as error:
            raise ConnectionError(errno.EIO, f"{error!s:.200}") from error


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
