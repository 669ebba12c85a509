"""What is open in the browser follows the cluster without being loaded again."""

from __future__ import annotations

import asyncio
import re
import uuid
from pathlib import Path

import pytest
from playwright.async_api import Route, expect

from tests.sessions import own_session
from tests.waiting import until
from tests.web.browser.conftest import Cluster
from tests.web.browser.watched import Tab, Windows
from tests.web.conftest import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

STATE_AFTER_ANOTHER_ANSWER = """
async () => {
  await (await fetch(location.href)).text();
  return [
    document.querySelector(".live-state").dataset.state,
    document.getElementById("attention").dataset.old,
  ];
}
"""


async def mark(tab: Tab) -> None:
    """Leaves a mark that a page which is loaded again would not have."""
    await tab.page.evaluate("window.marked = true")


async def is_marked(tab: Tab) -> bool:
    return bool(await tab.page.evaluate("window.marked === true"))


async def shows(tab: Tab, selector: str, words: str) -> None:
    await tab.page.locator(selector).filter(has_text=words).first.wait_for(timeout=20_000)


async def execute(dsn: str, statement: str, *values: object) -> None:
    connection = await own_session(dsn)
    await connection.execute(statement, *values)
    await connection.close()


@pytest.mark.long
async def test_the_log_and_the_state_of_a_run_follow_it(
    cluster: Cluster, windows: Windows, tmp_path: Path
) -> None:
    name = f"live-{uuid.uuid4().hex[:8]}"
    lines = tmp_path / "lines"
    await cluster.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler, args)"
        " VALUES ($1, '0 0 1 1 *', 'py:follows', jsonb_build_object('path', $2::text))",
        name,
        str(lines),
    )
    async with windows.tab(cluster.url) as tab:
        await tab.open(f"/schedules/{name}")
        async with tab.page.expect_navigation():
            await tab.page.get_by_role("button", name="Run now").click()
        await mark(tab)
        await shows(tab, "#head", "running")
        with lines.open("a") as file:
            print("the first line", file=file, flush=True)
            await shows(tab, ".log-text", "the first line")
            print("<b>the second</b> line", file=file, flush=True)
            await shows(tab, ".log-text", "<b>the second</b> line")
            print("end", file=file, flush=True)
        await shows(tab, "#head", "succeeded")
        await shows(tab, "#verbs", "Retry")

        assert await is_marked(tab)
        run = tab.place.rpartition("/")[2]
        assert await tab.page.title() == f"succeeded · run {run} · {name} · pgcron_ha"


async def test_an_open_overview_follows_the_cluster(
    full_site: Site, full_database: str, windows: Windows
) -> None:
    async with windows.tab(full_site.url) as tab:
        await tab.open("/")
        await mark(tab)
        title = await tab.page.title()
        await execute(full_database, "SELECT pgcron.pause_queue('ops', 'new disks', 'eve')")
        await shows(tab, "#attention tr", "eve: new disks")
        await until("the title counts it", lambda: has_other_title(tab, title))
        await execute(full_database, "UPDATE pgcron.node SET lease_until = now()")
        await shows(tab, "#tiles", "nothing fires, nothing runs")

        assert await is_marked(tab)
        assert await tab.page.locator("#live-state").inner_text() == "live"


async def has_other_title(tab: Tab, title: str) -> bool:
    return await tab.page.title() != title


async def test_what_somebody_uses_is_not_replaced(
    full_site: Site, full_database: str, windows: Windows
) -> None:
    paused = "SELECT pgcron.pause_queue('ops', 'new disks', 'eve')"
    async with windows.tab(full_site.url) as tab:
        await tab.open("/queues")
        rows = tab.page.locator("#list tr", has_text="ops")
        await rows.get_by_role("button", name="Pause").focus()
        await execute(full_database, paused)
        async with tab.page.expect_response(lambda answer: answer.url.endswith("/queues")):
            await tab.page.keyboard.press("r")
        async with tab.page.expect_response(lambda answer: answer.url.endswith("/queues")):
            await tab.page.keyboard.press("r")
        held = await rows.get_by_role("button", name="Pause").count()
        await tab.page.locator("h1").click()
        await tab.page.evaluate("document.activeElement.blur()")
        await tab.page.keyboard.press("r")
        await shows(tab, "#list tr", "eve: new disks")

        assert held == 1


async def test_what_is_held_stays_when_an_answer_was_under_way(
    full_site: Site, windows: Windows
) -> None:
    async with windows.tab(full_site.url) as tab:
        await tab.open("/")
        asked, goes_on = asyncio.Event(), asyncio.Event()

        async def late(route: Route) -> None:
            asked.set()
            await goes_on.wait()
            await route.continue_()

        await tab.page.route(tab.page.url, late)
        await tab.page.keyboard.press("r")
        await asyncio.wait_for(asked.wait(), 20)
        await tab.page.keyboard.press("p")
        await tab.page.evaluate("document.getElementById('attention').dataset.old = 1")
        async with tab.page.expect_event("requestfinished"):
            goes_on.set()
        state = await tab.page.evaluate(STATE_AFTER_ANOTHER_ANSWER)

        assert state == ["held", "1"]


async def test_a_page_that_stays_as_it_is_is_asked_for_once_by_each_press(
    full_site: Site, windows: Windows
) -> None:
    async with windows.tab(full_site.url) as tab:
        await tab.open("/docs")
        asked: list[str] = []
        tab.page.on("request", lambda request: asked.append(request.url))
        for _ in range(3):
            async with tab.page.expect_response(tab.page.url):
                await tab.page.keyboard.press("r")
            await tab.page.evaluate("fetch(location.href).then((answer) => answer.text())")

        # By each press one, and one of this test.
        assert asked.count(tab.page.url) == 6


@pytest.mark.long
async def test_a_rate_that_was_chosen_stays_chosen(
    full_site: Site, full_database: str, windows: Windows
) -> None:
    async with windows.tab(full_site.url) as tab:
        await tab.open("/dead")
        rate = tab.page.get_by_label("How fast").first
        await rate.select_option("10")
        await tab.page.evaluate("document.activeElement.blur()")
        await execute(full_database, "DELETE FROM pgcron.dead_letter WHERE schedule IS NULL")
        async with tab.page.expect_response(lambda answer: answer.url.endswith("/dead")):
            await tab.page.keyboard.press("r")
        await tab.page.locator("#letters", has_text="py:image.resize").wait_for(state="detached")

        assert await rate.input_value() == "10"


async def test_a_form_that_stays_open_stays_one_operation(
    full_site: Site, windows: Windows
) -> None:
    number = "[...document.querySelectorAll('#verbs input[name=operation]')].map((f) => f.value)[0]"
    async with windows.tab(full_site.url) as tab:
        await tab.open("/schedules/weekly-report")
        before = await tab.page.evaluate(number)
        async with tab.page.expect_response(lambda answer: "weekly-report" in answer.url):
            await tab.page.keyboard.press("r")
        async with tab.page.expect_response(lambda answer: "weekly-report" in answer.url):
            await tab.page.keyboard.press("r")
        after = await tab.page.evaluate(number)
        await tab.page.reload()

        assert after == before
        assert await tab.page.evaluate(number) != before


async def test_a_double_click_makes_one_run(
    full_site: Site, full_database: str, windows: Windows
) -> None:
    async with windows.tab(full_site.url) as tab:
        await tab.open("/schedules/weekly-report")
        await tab.page.get_by_role("button", name="Run now").dblclick(no_wait_after=True)
        # Not wait_for_url: it raises when the second click ends the navigation of the first.
        await expect(tab.page).to_have_url(re.compile("/runs/[^/]+$"), timeout=30_000)

    connection = await own_session(full_database)
    made = await connection.fetchval("SELECT count(*) FROM pgcron.run WHERE origin = 'manual'")
    await connection.close()
    assert made == 1
