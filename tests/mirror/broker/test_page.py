"""The page for browsers, in a real Chromium: a flow and a topic that are paused and resumed, and what is stopped."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import TopicPartition
from playwright.sync_api import expect
from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from tests.mirror.support.groups import commit
from tests.mirror.support.harness import alias_of, mm2, partitions, produce, records, unique
from tests.mirror.support.operating import REST, operated
from tests.support import topics
from tests.support.chromium import chromium
from tests.support.waiting import wait_for

_PHONE = (390, 844)
expect.set_options(timeout=60_000)


def test_a_flow_on_a_phone(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    topic = topics.create(a.bootstrap_servers, unique("page"), 1)
    stopped = topics.create(a.bootstrap_servers, f"{topic}-stopped", 1)
    group = unique("on-the-page")
    keys = {"checkpoints.topic.replication.factor": "1", "emit.checkpoints.interval.seconds": "1", "groups": group}
    file = mm2(tmp_path, a, b, f"{topic}.*", **REST, **keys, refresh__topics__interval__seconds="1")
    target = f"{alias_of(file)}.{topic}"
    topics.create(b.bootstrap_servers, f"{target}-stopped", 1)
    produce(b, f"{target}-stopped", [{"value": "of another program"}])
    produce(a, topic, [{"value": "1"}, {"value": "2"}])
    commit(a, group, TopicPartition(topic, 0, 1))
    with operated(spark, file) as mirror, chromium() as browser:
        page = browser.new_page(viewport={"width": _PHONE[0], "height": _PHONE[1]})
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda one: None if one.url.startswith(mirror.address) else wrong.append(one.url))
        page.goto(mirror.address)
        card = page.locator(f'[data-name="{mirror.name}"]')
        expect(card.locator(".title .state")).to_have_text("RUNNING")
        expect(card.get_by_role("heading", name=f"{alias_of(file)}->B")).to_be_visible()
        row = card.locator(f'[data-topic="{topic}"]')
        expect(row.locator("td").nth(2)).to_have_text("2")
        expect(card.locator(f'[data-group="{group}"]')).to_contain_text("1 of 1")
        expect(card).to_contain_text(f"{stopped}-0 is stopped [SEMEL_TARGET_HAS_ROWS]")
        expect(card).to_contain_text("semel mirror adopt")  # its way out
        page.get_by_role("button", name=f"Pause {topic}", exact=True).click()
        expect(row).to_contain_text("(paused)")
        page.get_by_role("button", name=f"Pause {mirror.name}").click()
        expect(card.locator(".title .state")).to_have_text("PAUSED")
        produce(a, topic, [{"value": "3"}])
        expect(row.locator("td").nth(3)).to_have_text("1")
        page.get_by_role("button", name=f"Resume {mirror.name}").click()
        expect(card.locator(".title .state")).to_have_text("RUNNING")
        assert partitions(b, target)
        assert len(records(b, target)[0]) == 2
        page.get_by_role("button", name=f"Resume {topic}", exact=True).click()
        wait_for(lambda: len(records(b, target)[0]) == 3, "the third record")
        expect(row.locator("td").nth(2)).to_have_text("3")
        assert page.evaluate("document.documentElement.scrollWidth") <= _PHONE[0]  # nothing beside a phone's screen
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        assert not wrong
