"""Every page is reached by links and looks as it should, with and without the script."""

from __future__ import annotations

import pytest

from tests.web.browser.crawl import PAGES, crawl
from tests.web.browser.intact import what_is_injected
from tests.web.browser.watched import Colours, Windows
from tests.web.conftest import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

BACKGROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 20, 25)"}

# What people who hear or tab through a page need.
LACKING = """
() => {
  const words = (element) => (element.textContent + (element.ariaLabel || "")).trim();
  const found = [];
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of ids.filter((id, at) => ids.indexOf(id) !== at)) found.push(`two #${id}`);
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  for (const field of document.querySelectorAll("input:not([type=hidden]), select"))
    if (!field.labels.length || !words(field.labels[0])) found.push(`no label: ${field.name}`);
  for (const target of document.querySelectorAll("a[href], button"))
    if (!words(target)) found.push(`no words: ${target.outerHTML.slice(0, 100)}`);
  for (const table of document.querySelectorAll("table:not(.docs-page *)"))
    if (!table.caption || !table.querySelector("thead th")) found.push("a table without its words");
  for (const head of document.querySelectorAll(".card > .card-head:only-child"))
    found.push(`nothing below ${head.textContent}`);
  for (const drawing of document.querySelectorAll("svg"))
    if (!drawing.getAttribute("role")) found.push("a drawing without a role");
  for (const cell of document.querySelectorAll("thead th:not(.docs-page *)"))
    if (cell.scope !== "col") found.push("a head without a scope");
  return found;
}
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "colours", "width"), [(True, "light", 1280), (False, "dark", 390)]
)
async def test_every_page_is_reached_by_links_and_fits(
    full_site: Site, windows: Windows, script: bool, colours: Colours, width: int
) -> None:
    async with windows.tab(full_site.url, script=script, colours=colours, width=width) as tab:

        async def look(address: str) -> None:
            assert (address, await tab.overflow()) == (address, 0)
            assert (address, await tab.page.evaluate(OUT_OF_REACH)) == (address, [])
            assert (address, await tab.page.evaluate(LACKING)) == (address, [])
            assert (address, await what_is_injected(tab)) == (address, [])
            assert (await tab.page.title()).endswith(" · pgcron_ha")
            assert await tab.page.evaluate(BACKGROUND) == BACKGROUNDS[colours]
            looked.append(address)

        looked: list[str] = []
        seen = await crawl(tab, look)

        print(f"looked at {len(looked)} pages")
        assert seen == PAGES
        assert {address.partition("?")[0] for address in looked} >= {"/", "/runs", "/dead"}


async def test_each_next_fire_has_its_button_in_reach_of_a_thumb(
    full_site: Site, windows: Windows
) -> None:
    async with windows.tab(full_site.url, script=False, colours="light", width=390) as tab:
        for address in ("/schedules/nightly-backup", "/schedules/nightly-backup?tz=Asia/Tokyo"):
            await tab.open(address)
            assert await tab.page.locator("#next td button").count() == 10
            assert (address, await tab.page.evaluate(OUT_OF_REACH)) == (address, [])
            assert await tab.page.evaluate(WIDER_THAN_ITS_CARD) == 0


@pytest.mark.parametrize("width", [1150, 1280])
async def test_each_schedule_of_the_list_has_its_buttons_in_reach(
    full_site: Site, windows: Windows, width: int
) -> None:
    async with windows.tab(full_site.url, script=False, colours="light", width=width) as tab:
        await tab.open("/schedules?tz=Asia/Kolkata")  # whose offset is long
        assert await tab.page.locator("#list td.actions button").count() > 20
        assert await tab.page.evaluate(OUT_OF_REACH) == []


WIDER_THAN_ITS_CARD = """
() => {
  const box = document.querySelector("#next .scroll");
  return box.scrollWidth - box.clientWidth;
}
"""
# Buttons that are seen only after scrolling sideways.
OUT_OF_REACH = """
() => [...document.querySelectorAll("button")]
  .filter((button) => button.offsetParent && button.getBoundingClientRect().right > innerWidth - 12)
  .map((button) => button.textContent)
"""
BACKGROUND = "getComputedStyle(document.documentElement).backgroundColor"
