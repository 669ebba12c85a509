from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from tests.web.conftest import Site
from tests.web.seed import EMOJI_NAME, HOSTILE_NAME, LONG_NAME, RIGHT_TO_LEFT_NAME


async def test_an_empty_cluster_says_how_to_begin(site: Site) -> None:
    page = await site.get("/")

    assert page.status_code == 200
    assert "Three steps to the first run" in page.text
    assert "No schedules yet" in (await site.get("/schedules")).text


async def test_the_overview_names_what_is_wrong_the_gravest_first(read_site: Site) -> None:
    page = await read_site.get("/")

    assert page.status_code == 200
    attention = page.text.split("Needs attention")[1].partition("</section>")[0]
    rows = re.findall(r'badge tone-(\w+)"><span class="glyph"', attention)
    order = [{"fail": 0, "late": 1, "retry": 2, "idle": 3}[tone] for tone in rows]
    assert order[:5] == [0] * 5
    assert order == sorted(order)
    assert "billing/reminders" in page.text
    assert "2 schedules: etl/customers, etl/products" in page.text
    assert re.search(r"<title>\(\d+\) Overview", page.text)


async def test_the_list_shows_health_next_fire_and_last_outcome(read_site: Site) -> None:
    page = await read_site.get("/schedules")

    for word in ("failing", "late", "stuck", "flaky", "slow", "paused", "new", "ok", "invalid"):
        assert f"</span>{word}</span>" in page.text, word


@pytest.mark.parametrize(
    ("query", "present", "absent"),
    [
        ("health=failing", "billing/reminders", "weekly-report"),
        ("health=late", "billing/invoices", "billing/reminders"),
        ("queue=etl", "etl/orders", "billing/reminders"),
        ("text=ORDERS", "etl/orders", "etl/products"),
        ("state=paused", "legacy-import", "etl/orders"),
    ],
)
async def test_filters_live_in_the_address(
    read_site: Site, query: str, present: str, absent: str
) -> None:
    page = await read_site.get(f"/schedules?{query}")

    assert page.status_code == 200
    rows = page.text.partition('id="list"')[2]
    assert present in rows
    assert absent not in rows


@pytest.mark.parametrize("name", [HOSTILE_NAME, RIGHT_TO_LEFT_NAME, EMOJI_NAME, LONG_NAME])
async def test_any_name_works_in_an_address_and_harms_nothing(read_site: Site, name: str) -> None:
    page = await read_site.get(f"/schedules/{quote(name, safe='')}")
    listing = await read_site.get("/schedules")

    assert page.status_code == 200
    assert "<script>alert" not in page.text
    assert "\u202e" not in page.text
    assert f"/schedules/{quote(name, safe='~')}" in listing.text


@pytest.mark.parametrize(
    ("path", "status", "hint"),
    [
        ("/nowhere", 404, "there is no page"),
        ("/schedules/etl", 404, "etl/orders"),
        ("/schedules?helth=late", 400, "Did you mean &#39;health&#39;?"),
        ("/schedules?health=failling", 400, "Did you mean &#39;failing&#39;?"),
        ("/schedules?text=a&text=b", 400, "is given twice"),
        ("/?window=25h", 400, "24h"),
        ("/?tz=Europe/Berln", 400, "Europe/Berlin"),
        ("/schedules/etl%2Forders/occurrences?before=x", 400, "is not a page of the ledger"),
        ("/schedules/%00", 404, "there is no page"),
        ("/schedules/%FF%FE", 404, ""),
        ("/schedules?text=%FF", 400, "can&#39;t be read"),
    ],
)
async def test_bad_input_is_a_page_that_says_so(
    read_site: Site, path: str, status: int, hint: str
) -> None:
    page = await read_site.get(path)

    assert page.status_code == status
    assert hint in page.text
    assert "Traceback" not in page.text


async def test_times_are_told_in_the_viewers_zone_and_utc(read_site: Site) -> None:
    page = await read_site.get("/schedules/nightly-backup?tz=Asia/Kathmandu")

    assert re.search(r'title="[\d: -]+ Asia/Kathmandu \(UTC\+5:45\) · [\d: -]+ UTC"', page.text)
    # A choice in the address goes with every link.
    assert "/schedules?tz=Asia%2FKathmandu" in page.text


async def test_each_link_on_top_has_a_key_of_its_own(read_site: Site) -> None:
    keys = re.findall(r'data-key="(\w)"', (await read_site.get("/")).text)

    assert len(keys) > 5
    assert sorted(set(keys)) == sorted(keys)


async def test_the_script_gets_the_same_regions_without_the_frame(read_site: Site) -> None:
    whole = await read_site.get("/")
    live = await read_site.get("/", **{"X-Pgcron-Live": "1"})

    regions = re.findall(r'id="(\w+)"[^>]* data-live', whole.text)
    assert {"banner", "tiles", "attention", "timeline", "queues", "nodes"} <= set(regions)
    assert [r for r in regions if f'id="{r}"' not in live.text] == []
    assert "<header" not in live.text


async def test_run_now_pause_and_resume_are_forms(full_site: Site) -> None:
    before = await full_site.get("/schedules/weekly-report")
    ran = await full_site.post("/schedules/weekly-report/run")
    paused = await full_site.post("/schedules/weekly-report/pause", note="moving house")
    page = await full_site.get(paused.headers["location"])
    resumed = await full_site.post("/schedules/weekly-report/resume")

    assert (ran.status_code, paused.status_code, resumed.status_code) == (303, 303, 303)
    # What was done is seen at once, though pages are shared for a second.
    assert "Paused by ui:local" not in before.text
    assert "Paused by ui:local: moving house" in page.text
    assert "Paused: no fires from now on." in page.text


async def test_a_verb_on_what_does_not_exist_is_a_404(full_site: Site) -> None:
    answer = await full_site.post("/schedules/nobody/run")

    assert answer.status_code == 404
    assert "schedule &#39;nobody&#39; does not exist" in answer.text
