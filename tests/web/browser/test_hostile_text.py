"""Names, args, errors, notes and log lines from outside are text on every page, nothing else."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from tests.product.model import plain
from tests.sessions import own_session
from tests.waiting import until
from tests.web.browser.hostile import CORPUS
from tests.web.browser.intact import what_is_injected
from tests.web.browser.watched import Tab, Windows
from tests.web.conftest import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

LISTS = (
    "/",
    "/?window=7d",
    "/schedules",
    "/schedules?health=failing",
    "/schedules?health=invalid",
    "/runs",
    "/runs?state=attention",
    "/runs?state=running",
    "/dead",
    "/dead?state=all",
    "/queues",
    "/queues/etl",
    "/nodes",
    "/nodes?state=dead",
    "/workflows",
    "/audit",
    "/roles",
    "/calendars",
    "/backfills",
)
AGE = "document.querySelectorAll('[data-live]').forEach((part) => { part.dataset.old = 1; })"
IS_NEW = "document.querySelector('[data-live][data-old]') === null"
# Those that an address could misread.
FILTERS = ("double", "escaped", "slashes", "mirrored", "terminal", "long")
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
HALVES = (tuple(CORPUS)[::2], tuple(CORPUS)[1::2])


async def look(tab: Tab, address: str) -> None:
    answer = await tab.open(address)
    assert (answer.status, address) == (200, address)
    assert (await what_is_injected(tab), address) == ([], address)
    assert (await tab.overflow(), address) == (0, address)


@pytest.mark.parametrize(
    ("script", "width"), [pytest.param(True, 1280, marks=pytest.mark.long), (False, 390)]
)
async def test_lists_of_hostile_names_are_only_text(
    hostile_site: Site, windows: Windows, script: bool, width: int
) -> None:
    async with windows.tab(hostile_site.url, script=script, width=width) as tab:
        for address in LISTS:
            await look(tab, address)
            if script:
                await tab.page.evaluate(AGE)
                await tab.page.keyboard.press("r")
                await until("every part is put in place anew", lambda: tab.page.evaluate(IS_NEW))
                assert (await what_is_injected(tab), address) == ([], address)


@pytest.mark.long
@pytest.mark.parametrize("words", HALVES, ids=["even", "odd"])
async def test_pages_of_hostile_names_say_them_as_they_are(
    hostile_site: Site, hostile_database: str, windows: Windows, words: tuple[str, ...]
) -> None:
    connection = await own_session(hostile_database)
    async with windows.tab(hostile_site.url) as tab:
        for word in words:
            text = CORPUS[word]
            row = await connection.fetchrow(
                """SELECT (SELECT min(id) FROM pgcron.history WHERE schedule = $1),
                          (SELECT incarnation FROM pgcron.node WHERE name = $1 LIMIT 1)""",
                text,
            )
            assert row is not None
            run, node = row
            segment = quote(text, safe="")
            name = f"~{segment}" if text in (".", "..") or text.startswith("~") else segment
            await look(tab, f"/schedules/{name}")
            heading = await tab.page.locator("h1").inner_text()
            await look(tab, f"/schedules/{name}/occurrences")
            await look(tab, f"/runs/{run}")
            lines = await tab.page.locator(".log-text").all_inner_texts()
            await look(tab, f"/nodes/{node}")
            await look(tab, f"/queues/{name}")
            await look(tab, f"/workflows/{name}")
            await look(tab, f"/runs/{run + 2}")
            for step in ("a" + text, text, "s" + text):
                part = quote(step, safe="")
                part = f"~{part}" if step in (".", "..") or step.startswith("~") else part
                await look(tab, f"/runs/{run + 2}/steps/{part}")
            if word in FILTERS:
                await look(tab, f"/runs?schedule={segment}&state=dead")
                await look(tab, f"/dead?class={segment}")

            assert squeezed(heading) == squeezed(plain(text))
            assert len(lines) == 3
            assert {squeezed(line) for line in lines} == {squeezed(plain(text))}
    await connection.close()


async def test_a_log_is_downloaded_as_harmless_text(hostile_site: Site) -> None:
    for number in range(len(CORPUS)):
        answer = await hostile_site.get(f"/runs/{900_000 + 10 * number}/log")

        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not CONTROLS.search(answer.text)


def squeezed(text: str) -> str:
    """As a browser shows it: runs of white space are one blank."""
    return " ".join(text.split())
