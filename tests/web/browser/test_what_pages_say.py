"""What the pages say, and whether it can be read: reasons, times and remedies."""

from __future__ import annotations

import json
import re
import uuid

import httpx
import pytest
from playwright.async_api import expect

from tests.entering import cookies
from tests.product.db import health
from tests.sessions import own_session
from tests.web.browser.watched import Windows
from tests.web.conftest import Serve, Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

HERE = "Europe/Berlin"  # of the browser
DATED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?(.*)")
# Links in a sentence that are told from it by their colour alone.
COLOUR_ALONE = """() => [...document.querySelectorAll("main p a, main td a, main dd a")]
  .filter((link) => link.offsetParent && !link.matches(".chip, .button"))
  .filter((link) => [...link.parentElement.childNodes].some((node) =>
      node.nodeType === Node.TEXT_NODE && node.textContent.trim().length > 3))
  .filter((link) => getComputedStyle(link).textDecorationLine === "none")
  .map((link) => link.parentElement.textContent.trim().slice(0, 80))"""
TOO_SMALL = """() => [...document.querySelectorAll(".log-number, .handlers a, tbody th > a")]
  .filter((link) => link.offsetParent)
  .map((link) => [link.className + " " + link.textContent, link.getBoundingClientRect()])
  .filter(([, box]) => box.height < 24 || box.width < 24)
  .map(([words, box]) => `${words.trim()} ${box.width}x${box.height}`)"""
NOT_REACHED = """() => [...document.querySelectorAll("main .scroll, main .log-box, main pre")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1)
  .filter((box) => ["auto", "scroll"].includes(getComputedStyle(box).overflowX))
  .filter((box) => box.tabIndex < 0 && !box.querySelector("a, button, input, select, summary"))
  .map((box) => box.outerHTML.slice(0, 80))"""
LETTER = """
    INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, queue, priority, handler, args, delivery,
        timeout, attempts, error_class, error, fingerprint)
    SELECT 900000 + n, gen_random_uuid(), 'dead', 'default', 5, 'py:faulty', '{}', 'at_least_once',
        '1 hour', 5, 'ValueError', 'order ' || n || ' has no address', 'same'
    FROM generate_series(1, 3) n"""


async def test_the_first_page_has_the_times_of_the_browser(
    full_site: Site, windows: Windows
) -> None:
    async with windows.tab(full_site.url) as tab:
        await tab.open("/runs?until=2d")
        await expect(tab.page.locator(".top .zone")).to_have_text(HERE)
        first = tab.page.locator("#list time").first
        await expect(first).to_have_text(re.compile(r" UTC\+[12]$"))
        for path in ("/runs?until=2d", "/schedules/etl%2Forders", "/backfills"):
            await tab.open(path)
            for text in await tab.page.locator("main time").all_inner_texts():
                dated = DATED.fullmatch(text)
                is_beside = path.startswith("/schedules")  # the zone is in the heading
                assert dated is None or is_beside or dated[1].startswith(" UTC"), (path, text)


async def test_a_run_that_a_breaker_holds_up_says_so_in_the_list(
    full_site: Site, full_database: str, windows: Windows
) -> None:
    connection = await own_session(full_database)
    await connection.execute("""
        SELECT pgcron.set_breaker('http:billing');
        SELECT pgcron.open_breaker('http:billing', 'no route', '5 failures in 1 m');
        INSERT INTO pgcron.run (handler, due_at) VALUES ('http:billing', now() - interval '1 m'),
            ('py:nowhere', now() - interval '1 m');
        UPDATE pgcron.run SET state = 'blocked', gate = 'breaker' WHERE handler = 'http:billing';
        UPDATE pgcron.run SET state = 'blocked', gate = 'no_node' WHERE handler = 'py:nowhere';
    """)
    await connection.close()
    async with windows.tab(full_site.url) as tab:
        for handler, why in (
            ("http:billing", "the circuit of http:billing is open for another"),
            ("py:nowhere", "no live node offers 'py:nowhere' for queue 'default'"),
        ):
            await tab.open(f"/runs?state=blocked&handler={handler}")
            (reason,) = await tab.page.locator("#list .reason").all_inner_texts()
            assert reason.startswith(why)


async def test_what_a_breaker_makes_late_names_it_and_offers_to_reset_it(
    full_site: Site, full_database: str, windows: Windows
) -> None:
    connection = await own_session(full_database)
    name = f"held-up-{uuid.uuid4().hex[:8]}"
    schedule = await connection.fetchval(
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ($1, 'every 1m', 'http:billing') "
        "RETURNING id",
        name,
    )
    await connection.execute("""
        SELECT pgcron.set_breaker('http:billing');
        SELECT pgcron.open_breaker('http:billing', 'no route', '5 failures in 1 m')
    """)
    await connection.execute(
        "INSERT INTO pgcron.run (origin, schedule_id, schedule, scheduled_for, handler, due_at) "
        "VALUES ('schedule', $1, $2, now() - interval '1 h', 'http:billing', "
        "now() - interval '1 h')",
        schedule,
        name,
    )
    await connection.execute(
        "UPDATE pgcron.run SET state = 'blocked', gate = 'breaker' WHERE schedule = $1", name
    )
    await connection.execute(
        "UPDATE pgcron.cursor SET next_fire = now() + interval '1 m', status = 'valid', "
        "since = now() - interval '2 h' WHERE schedule_id = $1",
        schedule,
    )
    await connection.close()
    async with windows.tab(full_site.url) as tab:
        await tab.open("/")
        row = tab.page.locator(".attention tr", has=tab.page.get_by_role("link", name=name))
        await expect(row).to_contain_text("as the circuit breaker of http:billing is open")
        assert await row.get_by_role("button").all_inner_texts() == ["Reset"]


async def test_letters_of_one_cause_are_one_row_of_the_overview(
    full_site: Site, full_database: str, windows: Windows
) -> None:
    connection = await own_session(full_database)
    await connection.execute(LETTER)
    await connection.close()
    async with windows.tab(full_site.url) as tab:
        await tab.open("/")
        row = tab.page.locator(".attention tr", has_text="py:faulty")
        assert await row.count() == 1
        await row.get_by_role("link", name="py:faulty (3 dead letters)").click()
        await expect(tab.page.locator("main")).to_contain_text("order 3 has no address")
        assert "group=same" in tab.place


async def test_a_held_snapshot_is_on_the_overview_with_its_whole_remedy(
    full_site: Site, full_database: str, windows: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(health.snapshot_holders.defaults, "seconds", 0.0)
    holder = await own_session(full_database)
    reads = holder.transaction(isolation="repeatable_read")
    await reads.start()
    pid = await holder.fetchval("SELECT pg_backend_pid() FROM pgcron.cluster")
    async with windows.tab(full_site.url) as tab:
        await tab.open("/")
        row = tab.page.locator(".attention tr", has_text=f"Transaction {pid} ")
        await expect(row).to_contain_text("dead rows stay in every table")
        await expect(row).to_contain_text(f"SELECT pg_terminate_backend({pid});")
    await reads.rollback()
    await holder.close()


async def test_a_preview_of_a_wrong_spec_does_not_say_that_it_was_not_saved(
    full_site: Site, windows: Windows
) -> None:
    async with windows.tab(full_site.url) as tab:
        await tab.open("/new-schedule")
        await tab.page.fill("[name=name]", "wrong")
        await tab.page.fill("[name=spec]", "0 25 * * *")
        await tab.page.fill("[name=handler]", "py:x")
        for button, words in (
            ("Preview", "It can't be created:"),
            ("Create", "It was not created:"),
        ):
            async with tab.page.expect_navigation():
                await tab.page.get_by_role("button", name=button, exact=True).click()
            await expect(tab.page.locator("#error-title")).to_contain_text(words)
        await tab.open("/schedules/etl%2Forders/edit")
        await tab.page.fill("[name=spec]", "0 25 * * *")
        async with tab.page.expect_navigation():
            await tab.page.get_by_role("button", name="Preview", exact=True).click()
        await expect(tab.page.locator("#error-title")).to_contain_text("It can't be saved:")


async def test_pages_are_compressed_for_who_can_read_it(full_site: Site, windows: Windows) -> None:
    async with windows.tab(full_site.url) as tab:
        answer = await tab.open("/")
        assert await answer.header_value("content-encoding") == "gzip"
        assert "Needs attention" in await tab.page.locator("main").inner_text()
    plain = {"accept-encoding": "identity"}
    async with httpx.AsyncClient(
        base_url=full_site.url, headers=plain, cookies=cookies(full_site.url)
    ) as client:
        whole = await client.get("/")
    packed = await full_site.client.get("/", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in whole.headers
    sent = packed.num_bytes_downloaded
    assert sent < len(whole.content) / 4
    assert sent < 20_000


PAGES = (
    *("/", "/schedules", "/schedules/etl%2Forders", "/schedules/etl%2Forders/edit"),
    *("/schedules/etl%2Forders/occurrences?at=02:00", "/runs", "/dead", "/queues", "/nodes"),
    *("/storage", "/backfills"),
)


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.long), 390])
async def test_links_are_seen_hit_and_reached(
    full_site: Site, windows: Windows, width: int
) -> None:
    async with windows.tab(full_site.url, width=width) as tab:
        await tab.open("/nodes")
        node = await tab.page.locator("main th a[href*='/nodes/']").first.get_attribute("href")
        await tab.open("/runs?state=succeeded")
        run = await tab.page.locator("#list th a").first.get_attribute("href")
        found = {}
        for path in (*PAGES, node or "", run or ""):
            await tab.open(path)
            for what, rule in (
                ("colour", COLOUR_ALONE),
                ("size", TOO_SMALL),
                ("reach", NOT_REACHED),
            ):
                if wrong := await tab.page.evaluate(rule):
                    found[path, what] = wrong[:3]
    assert found == {}


async def test_the_main_pages_fit_on_a_phone(
    full_site: Site, full_database: str, windows: Windows
) -> None:
    connection = await own_session(full_database)
    chain = {"steps": [{"name": f"s{n}", "handler": "py:x"} for n in range(6)]}
    await connection.execute("SELECT pgcron.put_workflow('six', $1)", json.dumps(chain))
    await connection.close()
    heights = {"/schedules/etl%2Forders": 5_000, "/schedules": 4_700, "/dead": 4_500}
    found = {}
    async with windows.tab(full_site.url, width=390) as tab:
        await tab.open("/runs?state=dead")
        run = await tab.page.locator("#list th a").first.get_attribute("href")
        for path in (*PAGES, run or "", "/workflows", "/workflows/six", "/audit"):
            assert (await tab.open(path)).status == 200, path
            height = await tab.page.evaluate("document.documentElement.scrollHeight")
            if (await tab.overflow()) or height >= heights.get(path, height + 1):
                found[path] = await tab.overflow(), height
        await tab.open("/schedules/etl%2Forders")
        await expect(tab.page.get_by_role("link", name="All runs")).to_be_visible()
    assert found == {}


@pytest.mark.parametrize("width", [1280, 390])
async def test_filters_are_folded_on_a_phone_alone(
    full_site: Site, windows: Windows, width: int
) -> None:
    is_phone = width == 390
    async with windows.tab(full_site.url, width=width) as tab:
        for path in ("/schedules", "/runs", "/dead", "/backfills", "/workflows", "/audit"):
            await tab.open(path)
            fold = tab.page.get_by_text("Filters", exact=True)
            field = tab.page.locator("[data-search]")
            shown = (await fold.is_visible(), await field.is_visible())
            assert (path, *shown) == (path, is_phone, not is_phone)
            await tab.page.keyboard.press("/")
            await expect(field).to_be_focused()
            await expect(field).to_be_visible()
        await tab.open("/dead")
        if is_phone:
            await tab.page.get_by_text("Filters", exact=True).click()
        await tab.page.fill("[name=owner]", "nobody")
        await tab.page.get_by_role("button", name="Show", exact=True).click()
        await expect(tab.page.locator("main")).to_contain_text("No dead letter matches")
        await expect(tab.page.locator(".chips")).to_contain_text("owner: nobody")
        await tab.open("/dead?class=Odd&state=all&group=none")
        assert "class=Odd" in tab.place
        async with tab.page.expect_navigation():
            await tab.page.locator("form.filters").evaluate("(form) => form.requestSubmit()")
        assert sorted(tab.place.partition("?")[2].split("&")) == [
            *("class=Odd", "group=none", "state=all")
        ]


async def test_a_schedule_that_never_succeeded_is_not_among_the_good_ones(
    database: str, serve: Serve, windows: Windows
) -> None:
    connection = await own_session(database)
    await connection.execute("""
        SELECT pgcron.set_breaker('http:billing');
        SELECT pgcron.open_breaker('http:billing', 'no route', '5 failures in 1 m');
        INSERT INTO pgcron.schedule (name, spec, handler)
        VALUES ('held-up', 'every 1m', 'http:billing');
        UPDATE pgcron.cursor
        SET next_fire = now() + interval '1 m', status = 'valid', since = now() - interval '2 h';
        INSERT INTO pgcron.run (origin, schedule_id, schedule, scheduled_for, handler, due_at)
        SELECT 'schedule', id, name, now() - interval '1 h', handler, now() - interval '1 h'
        FROM pgcron.schedule;
        UPDATE pgcron.run SET state = 'blocked', gate = 'breaker'
    """)
    await connection.close()
    async with serve(database) as site, windows.tab(site.url) as tab:
        await tab.open("/")
        failing = tab.page.locator(".tile", has_text="Failing schedules")
        late = tab.page.locator(".tile", has_text="Late").first
        assert "succeeded" not in await failing.inner_text()
        await expect(failing).to_contain_text("no last run failed")
        await expect(late).to_contain_text("1")
        await expect(tab.page.locator(".attention")).to_contain_text("held-up")


async def test_a_graph_of_six_steps_fits_and_one_of_twelve_scrolls(
    full_site: Site, full_database: str, windows: Windows
) -> None:
    connection = await own_session(full_database)
    for steps in (6, 12):
        chain = [
            {"name": f"s{n}", "handler": "py:x", **({"after": f"s{n - 1}"} if n else {})}
            for n in range(steps)
        ]
        definition = json.dumps({"steps": chain})
        await connection.execute("SELECT pgcron.put_workflow($1, $2)", f"chain-{steps}", definition)
    await connection.close()
    hidden = "document.querySelector('.graph-box').scrollWidth"
    hidden += " - document.querySelector('.graph-box').clientWidth"
    async with windows.tab(full_site.url, width=1280) as tab:
        await tab.open("/workflows/chain-6")
        assert await tab.page.evaluate(hidden) <= 1
        await tab.open("/workflows/chain-12")
        assert await tab.page.evaluate(hidden) > 500
