"""``semel mirror translate``: the offsets of a group, or one offset, on the other cluster; ``--apply`` commits them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from semel.cli.options import AsJson, MirrorFile, print_json, print_table
from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.config.properties import read_properties
from semel.mirror.offsets.checkpoints import read_checkpoints
from semel.mirror.offsets.segments import Translated
from semel.mirror.offsets.translation import Translator
from semel.mirror.positions import flow_id
from semel.wire.api import groups
from semel.wire.api.offsets import committed, live_members
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["translate"]

Source = Annotated[str, typer.Option("--source", help="The cluster that holds the group's offsets.")]
Target = Annotated[str, typer.Option("--target", help="The cluster on which the group will resume.")]


def translate(
    file: MirrorFile,
    source: Source,
    target: Target,
    group: Annotated[str, typer.Option(help="The consumer group to translate.")] = "",
    topic: Annotated[str, typer.Option(help="Instead of a group: translate one offset of this topic.")] = "",
    partition: Annotated[int, typer.Option(help="The partition, with --topic.", min=0)] = 0,
    offset: Annotated[int, typer.Option(help="The next offset to read, with --topic.", min=0)] = 0,
    apply: Annotated[bool, typer.Option("--apply", help="Commit the offsets for the group on the target.")] = False,
    as_json: AsJson = False,
) -> None:
    """Translate a group's offsets, so that it resumes at the same records on the other cluster.

    It works in both directions of a flow: for a group that moves to the mirror, and for one that moves back. Without
    `--apply` it only shows the offsets.
    """
    if bool(group) == bool(topic):
        raise typer.BadParameter("give either a group or a topic", param_hint="--group")
    if apply and not group:
        raise typer.BadParameter("offsets are committed for a group: give one", param_hint="--apply")
    config = read_properties(file)
    there, back = config.flow(source, target), config.flow(target, source)
    some = there or back
    if some is None:
        raise ConfigError(
            f"neither {source}->{target} nor {target}->{source} is enabled in {file}. Nothing was translated. Correct"
            " --source and --target, or the file.",
            tag="NO_FLOW",
        )
    with ExitStack() as stack:
        pairs = (there.source, there.target) if there else (some.target, some.source)
        here, away = (stack.enter_context(Client(ClientConfig.parse(properties))) for properties in pairs)
        group_offsets = groups.all_committed(here, group) if group else {}
        offsets = {at: one.offset for at, one in group_offsets.items()} if group else {(topic, partition): offset}
        if group and not offsets:
            raise ConfigError(
                f"group {group!r} has no offsets on {source}. Nothing was translated. Correct the group's name.",
                tag="NO_OFFSETS",
            )
        translated = _translated(here, away, there, back, offsets, group)
        if apply:
            texts = {(one.topic, one.partition): group_offsets[at].metadata for at, one in translated.items()}
            _commit(here, away, group, (source, target), translated, texts)
    _print(source, target, offsets, translated, as_json=as_json, applied=apply)


def _translated(
    here: Client,
    away: Client,
    there: FlowConfig | None,
    back: FlowConfig | None,
    offsets: dict[TopicPartition, int],
    group: str,
) -> dict[TopicPartition, Translated]:
    """Translate by the flow to the target, and by the flow that comes from there."""
    translated: dict[TopicPartition, Translated] = {}
    began = False
    for flow, source, target in ((there, here, away), (back, away, here)):
        if flow is None:
            continue
        translator = Translator(source, target, flow_id(flow.policy.source, flow.policy.target))
        if translator.refresh():
            began = True
            if flow is there:
                checkpoints = read_checkpoints(target, flow.policy).get(group, {}) if group else {}
                translated |= translator.forward(offsets, checkpoints)
            else:
                translated |= translator.backward(offsets)
    if not began:
        raise ConfigError(
            "the mirror has copied nothing between these clusters yet. Nothing was translated. Start it first:"
            " semel mirror FILE",
            tag="NOTHING_COPIED",
        )
    return translated


def _commit(
    here: Client,
    away: Client,
    group: str,
    aliases: tuple[str, str],
    translated: dict[TopicPartition, Translated],
    texts: dict[TopicPartition, str],
) -> None:
    source, target = aliases
    for client, name in ((here, source), (away, target)):
        members = live_members(client, group)
        if members:
            raise ConfigError(
                f"group {group!r} has live members on {name} ({', '.join(members[:3])}). Nothing was committed. Stop"
                " them, then translate again.",
                tag="GROUP_IN_USE",
            )
    wanted = {(one.topic, one.partition): one.offset for one in translated.values()}
    before = committed(away, group, wanted, require_stable=False) if wanted else {}
    back = [partition for partition, offset in before.items() if wanted[partition] < offset]
    if back:
        topic, index = min(back)
        raise ConfigError(
            f"group {group!r} is at offset {before[topic, index]} of {topic}-{index} on {target}, and the translation"
            f" is {wanted[topic, index]}: it would go back. Nothing was committed. Is that what you want? Commit them"
            " by hand: kafka-consumer-groups.sh --reset-offsets",
            tag="BACKWARDS",
        )
    if wanted:
        groups.commit(away, group, wanted, metadata=texts)


def _print(
    source: str,
    target: str,
    offsets: dict[TopicPartition, int],
    translated: dict[TopicPartition, Translated],
    *,
    as_json: bool,
    applied: bool,
) -> None:
    if as_json:
        rows: list[dict[str, object]] = []
        for _, one in sorted(translated.items()):
            rows.append({"topic": one.topic, "partition": one.partition, "offset": one.offset})
            if one.note:
                rows[-1]["note"] = one.note
        print_json(rows)
        return
    console = Console(soft_wrap=True)
    table = Table(source, "offset", target, "offset", "", box=None, header_style="bold", padding=(0, 2))
    for (topic, index), offset in sorted(offsets.items()):
        translation = translated.get((topic, index))
        there = (
            (f"{translation.topic}-{translation.partition}", str(translation.offset), translation.note)
            if translation
            else ("-", "-", "not mirrored")
        )
        table.add_row(f"{topic}-{index}", str(offset), *there)
    print_table(console, table)
    if applied:
        console.print(f"committed on {target}: {len(translated)} partitions")
