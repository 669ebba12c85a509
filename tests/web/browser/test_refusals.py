"""What can't be is a page with status 4xx that names, as a link, what may have been meant."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import quote

import pytest

from tests.web.browser.hostile import CORPUS
from tests.web.browser.intact import what_is_injected
from tests.web.browser.watched import Windows
from tests.web.conftest import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

# What is asked for, the status, and the address of the first suggestion.
REFUSED = (
    ("/schedules?helth=failing", 400, "/schedules?health=failing"),
    ("/schedules?health=faling&state=on", 400, "/schedules?health=failing&state=on"),
    ("/schedules?queue=etk", 400, "/schedules?queue=etl"),
    ("/schedules?health=healthy&state=on", 400, "/schedules?state=on"),
    ("/schedules?text=%00", 400, "/schedules"),
    ("/runs?state=ded", 400, "/runs?state=dead"),
    ("/runs?page=2", 400, "/runs"),
    ("/runs?before=zzz&queue=etl", 400, "/runs?queue=etl"),
    ("/runs?since=yesterday", 400, "/runs"),
    ("/runs?queue=mial", 404, "/runs?queue=mail"),
    ("/dead?state=opn", 400, "/dead?state=open"),
    ("/dead?before=x", 400, "/dead"),
    ("/nodes?state=aliv", 400, "/nodes?state=alive"),
    ("/?window=25h", 400, "/?window=24h"),
    ("/?tz=Europe/Berln", 400, "/?tz=Europe%2FBerlin"),
    ("/runs?tz=Nowhere&state=dead", 400, "/runs?state=dead"),
    ("/schedules/nightly-bakup", 404, "/schedules/nightly-backup"),
    ("/schedules/nothing-like-it", 404, "/schedules"),
    ("/schedules/nightly-backup?before=monday", 400, "/schedules/nightly-backup"),
    (
        "/schedules/nightly-backup/occurrences?decision=runs",
        400,
        "/schedules/nightly-backup/occurrences?decision=run",
    ),
    ("/schedules/nightly-backup/occurences", 404, "/schedules/nightly-backup"),
    ("/schedules/nightly-backup/run", 405, "/schedules/nightly-backup"),
    ("/runs/10521?log=0", 400, "/runs/10521"),
    ("/runs/999999999", 404, "/runs"),
    ("/runs/abc", 404, "/runs"),
    ("/run/10520", 404, "/runs/10520"),
    ("/runs/10520/lgo", 404, "/runs/10520"),
    ("/queues/mial", 404, "/queues/mail"),
    ("/schedulez", 404, "/schedules"),
)


async def test_what_cannot_be_names_the_nearest_that_can(full_site: Site) -> None:
    for path, status, nearest in REFUSED:
        page = await full_site.get(path)
        near = re.search(r'<ul class="near">.*?href="([^"]*)"', page.text, re.DOTALL)

        assert page.status_code == status, path
        assert "Traceback" not in page.text
        assert near is not None, path
        assert unescape(near[1]) == nearest, path
        assert (await full_site.get(nearest)).status_code == 200, nearest


async def test_a_refused_page_leads_back_by_its_links(full_site: Site, windows: Windows) -> None:
    async with windows.tab(full_site.url) as tab:
        refused = await tab.open("/schedules/nightly-bakup?tz=Atlantis")
        paths = await tab.page.locator("header a").evaluate_all(
            "(all) => all.map((link) => link.getAttribute('href'))"
        )
        answers = {(await full_site.get(path)).status_code for path in paths}
        await tab.page.get_by_role("link", name="the page without it").click()
        again = tab.place
        await tab.page.get_by_role("link", name="nightly-backup").click()

        assert refused.status == 400
        assert answers == {200}
        assert again == "/schedules/nightly-bakup"
        assert await tab.page.title() == "nightly-backup · pgcron_ha"


@pytest.mark.parametrize("script", [pytest.param(True, marks=pytest.mark.long), False])
async def test_a_refused_name_is_shown_harmlessly(
    full_site: Site, windows: Windows, script: bool
) -> None:
    async with windows.tab(full_site.url, script=script, width=390) as tab:
        for text in [*CORPUS.values(), "\0", "%", "%zz", "?#"]:
            name = quote(text, safe="")
            place = f"/schedules/{name}" if script else f"/runs?{name}=1&tz={name}&state={name}"
            answer = await tab.open(place)

            assert answer.status in (400, 404), place
            assert await what_is_injected(tab) == [], place
            assert await tab.overflow() == 0, place
