"""What can't be is a page with status 4xx, which leads to the names that may have been meant."""

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

# What is asked for, and the address of the first suggestion.
UNKNOWN = (
    ("/schedules/nightly-bakup", "/schedules/nightly-backup"),
    ("/schedules/nightly-bakup/occurrences", "/schedules/nightly-backup/occurrences"),
    ("/schedules/nothing-like-it", "/schedules"),
    ("/runs/999999999", "/runs"),
    ("/queues/mial", "/queues/mail"),
)


async def test_a_name_that_nothing_has_leads_to_the_nearest(full_site: Site) -> None:
    for path, nearest in UNKNOWN:
        page = await full_site.get(path)
        near = re.search(r'<ul class="near">.*?href="([^"]*)"', page.text, re.DOTALL)

        assert page.status_code == 404, path
        assert near is not None, path
        assert unescape(near[1]) == nearest, path
        assert (await full_site.get(nearest)).status_code == 200, nearest


async def test_a_refused_page_leads_back_by_its_links(full_site: Site, windows: Windows) -> None:
    async with windows.tab(full_site.url) as tab:
        refused = await tab.open("/schedules/nightly-bakup")
        paths = await tab.page.locator("header a").evaluate_all(
            "(all) => all.map((link) => link.getAttribute('href'))"
        )
        answers = {(await full_site.get(path)).status_code for path in paths}
        await tab.page.get_by_role("link", name="nightly-backup").click()

        assert refused.status == 404
        assert answers == {200}
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
