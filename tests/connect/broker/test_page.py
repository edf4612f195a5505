"""The page for browsers, in a real Chromium: a mistake at its field, a task that is killed and comes back."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, expect
from pyspark.sql import SparkSession

from semel.processes.supervisor import State
from semel.sandbox import Sandbox
from tests.connect.support.place import Place
from tests.connect.support.running import Running
from tests.support.chromium import chromium
from tests.support.waiting import wait_for

_PATIENCE_MS = 60_000
_PHONE = (390, 844)
expect.set_options(timeout=_PATIENCE_MS)


@pytest.fixture
def place(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Place:
    return Place(spark, kafka.bootstrap_servers, tmp_path)


def test_a_connector_from_its_first_mistake_to_its_end(place: Place) -> None:
    with place.file.open("w") as file:
        file.writelines(f"line {number}\n" for number in range(3))
    stored = place.stored | {"listeners": "http://127.0.0.1:0"}
    with place.running(**stored) as running, chromium() as browser:
        page = browser.new_page(viewport={"width": _PHONE[0], "height": _PHONE[1]})
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url) if not _own(request.url, running) else None)
        page.goto(running.worker.addresses[0])
        _create(page, place)
        card = page.locator(f'[data-name="{place.name}"]')
        task = card.locator('[data-task="0"]')
        expect(card.locator(".title .state")).to_have_text("RUNNING")
        card.get_by_text("Tasks, offsets, settings").click()
        expect(task).to_contain_text("RUNNING")
        expect(task.locator("td").nth(2)).to_have_text("3")
        expect(card).to_contain_text(f'{{"position":{place.file.stat().st_size}}}')
        _kill(place, running)
        place.wait_arrived(10)
        # another process, which has read the seven lines behind the offset
        expect(task.locator("td").nth(2)).to_have_text("7")
        expect(task).to_contain_text("RUNNING")
        page.get_by_role("button", name=f"Pause {place.name}").click()
        expect(task).to_contain_text("PAUSED")
        expect(card.locator(".title .state")).to_have_text("PAUSED")
        page.get_by_role("button", name=f"Resume {place.name}").click()
        expect(task).to_contain_text("RUNNING")
        _change(page, place, running)
        _restart(page, place, running)
        _stop(page, place)
        assert page.evaluate("document.documentElement.scrollWidth") <= _PHONE[0]  # nothing beside a phone's screen
        page.get_by_role("button", name=f"Delete {place.name}").click()
        page.get_by_role("button", name="Delete", exact=True).click()
        expect(card).to_have_count(0)
        expect(page.get_by_text("There is no connector yet.")).to_be_visible()
        assert sorted(place.values()) == sorted(f"line {number}" for number in range(13))  # each once
        assert not wrong


def test_who_does_not_ask_for_html_gets_json(place: Place) -> None:
    with place.running(listeners="http://127.0.0.1:0") as running:
        address = running.worker.addresses[0]
        for accepted in ("*/*", "application/json"):
            with urlopen(Request(f"{address}/", headers={"Accept": accepted})) as answer:
                assert json.load(answer).keys() == {"version", "commit", "kafka_cluster_id"}
        with urlopen(Request(f"{address}/", headers={"Accept": "text/html,*/*;q=0.8"})) as answer:
            assert answer.headers["Content-Type"].startswith("text/html")
            assert "default-src 'self'" in answer.headers["Content-Security-Policy"]


def _own(url: str, running: Running) -> bool:
    return url.startswith(running.worker.addresses[0])


def _create(page: Page, place: Place) -> None:
    """Create it, with mistakes at first: a missing file, and no number of lines at all."""
    page.get_by_role("button", name="New connector").click()
    page.get_by_label("Class", exact=True).select_option("semel.connect.connectors.file.FileStreamSource")
    page.get_by_label("Connector name").fill(place.name)
    page.get_by_label("topic", exact=True).fill(place.topic)
    page.get_by_label("batch.size").fill("0")
    page.get_by_role("button", name="Create").click()
    mistake = page.locator('[id="field-file-error"]')
    expect(mistake).to_have_text('Missing required configuration "file" which has no default value.')
    expect(page.locator('[id="field-batch.size-error"]')).to_contain_text("Value must be at least 1")
    expect(page.get_by_label("file", exact=True)).to_be_focused()
    page.get_by_label("file", exact=True).fill(str(place.file))
    page.get_by_label("batch.size").fill("100")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def _kill(place: Place, running: Running) -> None:
    os.kill(_pid(place, running), signal.SIGKILL)
    _append(place, range(3, 10))


def _change(page: Page, place: Place, running: Running) -> None:
    """Change a setting, with a mistake at first: another process goes on, with the new one."""
    page.get_by_role("button", name=f"Change {place.name}").click()
    size = page.get_by_label("batch.size")
    expect(size).to_have_value("100")
    expect(page.get_by_label("Connector name")).to_have_attribute("readonly", "")
    size.fill("many")
    page.get_by_role("button", name="Save").click()
    expect(page.locator('[id="field-batch.size-error"]')).to_contain_text("Not a number")
    size.fill("50")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert running.worker.herder.info(place.name)["config"]["batch.size"] == "50"
    _goes_on(page, place, 10)


def _restart(page: Page, place: Place, running: Running) -> None:
    before = _pid(place, running)
    page.get_by_role("button", name=f"Restart {place.name}").click()
    wait_for(lambda: _pid(place, running) != before, "another process")
    _goes_on(page, place, 11)


def _stop(page: Page, place: Place) -> None:
    """A stopped connector has no tasks; a resumed one goes on."""
    card = page.locator(f'[data-name="{place.name}"]')
    page.get_by_role("button", name=f"Stop {place.name}").click()
    expect(card.locator(".title .state")).to_have_text("STOPPED")
    expect(card.locator("[data-task]")).to_have_count(0)
    expect(page.get_by_role("button", name=f"Stop {place.name}")).to_be_hidden()
    page.get_by_role("button", name=f"Resume {place.name}").click()
    _goes_on(page, place, 12)


def _goes_on(page: Page, place: Place, number: int) -> None:
    """Its newest line, of this number, arrives."""
    _append(place, [number])
    place.wait_arrived(number + 1)
    card = page.locator(f'[data-name="{place.name}"]')
    expect(card.locator(".title .state")).to_have_text("RUNNING")
    expect(card.locator('[data-task="0"]')).to_contain_text("RUNNING")


def _pid(place: Place, running: Running) -> int:
    return int(running.wait_state(f"{place.name}-0", State.RUNNING).where.rpartition(":")[2])


def _append(place: Place, numbers: Iterable[int]) -> None:
    with place.file.open("a") as file:
        file.writelines(f"line {number}\n" for number in numbers)
