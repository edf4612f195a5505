"""Questions to a connector before it is stored, as KIP-618's preflight. Problems are noted at their settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from semel.connect.api import SourceConnector
from semel.connect.herder.connector_calls import ask_connector
from semel.connect.settings.connector_properties import ConnectorProperties
from semel.connect.sink_api import SinkConnector
from semel.errors import SemelError, Unsupported
from semel.settings import NOTHING

__all__ = ["check_boundary", "check_own", "check_support"]


def check_boundary(
    properties: ConnectorProperties, connector: SourceConnector, own: Mapping[str, Any], *, exactly_once: bool
) -> None:
    """Refuse boundaries of the connector's where it has none, or nothing is transactional."""
    setting = "transaction.boundary"
    try:
        able = ask_connector("", setting, lambda: connector.can_define_transaction_boundaries(own))
    except SemelError as error:
        text = f"an unexpected error occurred in the connector's validation of {setting}: {error.message}"
        properties.add(setting, text, cause=error)
        return
    if able is None:
        text = "the connector returned null for its support of transaction boundaries, which is not permitted, and"
        properties.add(setting, f"{text} is treated as unsupported. Use another boundary.", remedy="")
    elif not able:
        text = "the connector does not support connector-defined transaction boundaries with this configuration."
        properties.add(setting, f"{text} Use another boundary.", remedy="")
    elif not exactly_once:
        text = "transaction.boundary=connector needs a worker with exactly.once.source.support=enabled."
        properties.add(setting, text, remedy="Use another boundary.")


def check_support(
    properties: ConnectorProperties, connector: SourceConnector, own: Mapping[str, Any], *, exactly_once: bool
) -> None:
    """Refuse ``exactly.once.support=required`` if the connector does not promise it."""
    setting = "exactly.once.support"
    if not exactly_once:
        text = "this worker does not have exactly-once source support enabled."
        remedy = "Set exactly.once.source.support=enabled for the worker."
    else:
        try:
            supported = ask_connector("", setting, lambda: connector.exactly_once_support(own))
        except SemelError as error:
            if error.tag != "CONNECTOR_RAISED":  # it says itself what is missing
                properties.raised(setting, error)
                return
            text = f"an unexpected error occurred in the connector's validation of {setting}: {error.message}"
            properties.add(setting, text, cause=error)
            return
        if supported:
            return
        if supported is False:
            text = "the connector does not support exactly-once with this configuration."
            remedy = "Change it, or use requested."
        else:
            text = "the connector does not implement the API for preflight validation of exactly-once support."
            remedy = "Consult its documentation; where that promises it, use requested."
    text = f"{setting}=required, but {text} {remedy}"
    properties.add(setting, text, remedy="")


def check_own(
    properties: ConnectorProperties,
    connector: SourceConnector | SinkConnector,
    own: Mapping[str, Any],
    names: Iterable[str],
) -> None:
    """Refuse what the connector's own ``validate`` refuses, at the setting of these that its error begins with."""
    try:
        ask_connector(own.get("name", ""), "validate", lambda: connector.validate(own))
    except SemelError as error:
        setting = next((one for one in names if error.message.startswith((f"{one} ", f"{one}="))), "connector.class")
        text = error.message.replace(f" {NOTHING} ", " ")  # REST shows the text alone
        kind = isinstance(error, Unsupported)
        properties.add(setting, text, tag=error.tag, remedy="", cause=error, unsupported=kind)
