"""The pages by keyboard alone: everything is reached, seen where it is, and can be done."""

from __future__ import annotations

import pytest

from tests.web.browser.watched import Windows
from tests.web.conftest import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = "/schedules/weekly-report"
# What Tab should stop at, in the order of the document.
STOPS = """
() => [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
  .filter((element) => element.tabIndex >= 0 && element.type !== "hidden"
    && !element.closest("dialog") && element.checkVisibility()
    && (element.offsetParent || element.matches(".skip")))
  .map((element, at) => { element.dataset.stop = at; return at; }).length
"""
FOCUSED = """
() => {
  const element = document.activeElement;
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  return {
    stop: Number(element.dataset.stop ?? -1),
    isMarked: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
    isSeen: box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight,
    what: element.outerHTML.slice(0, 120),
  };
}
"""


async def test_tab_stops_at_everything_in_order_and_shows_where_it_is(
    full_site: Site, windows: Windows
) -> None:
    async with windows.tab(full_site.url) as tab:
        await tab.open(PAGE)
        await tab.page.keyboard.press("p")  # held, so that nothing is put in place meanwhile
        stops = await tab.page.evaluate(STOPS)
        reached = []
        for _ in range(stops):
            await tab.page.keyboard.press("Tab")
            focused = await tab.page.evaluate(FOCUSED)
            assert focused["isMarked"], focused
            assert focused["isSeen"], focused
            reached.append(focused["stop"])

        assert stops > 20
        assert reached == list(range(stops))


async def test_a_run_is_made_without_a_pointer(full_site: Site, windows: Windows) -> None:
    async with windows.tab(full_site.url) as tab:
        await tab.open(PAGE)
        await tab.page.keyboard.press("Tab")
        skip = await tab.page.evaluate("document.activeElement.textContent")
        await tab.page.keyboard.press("Enter")
        await tab.page.keyboard.press("Tab")
        crumb = await tab.page.evaluate("document.activeElement.textContent")
        await tab.page.keyboard.press("Tab")
        async with tab.page.expect_navigation(url="**/runs/*"):
            await tab.page.keyboard.press("Enter")

        assert (skip, crumb) == ("Skip to the content", "Schedules")
        assert "A run was made" in await tab.page.locator("#notice").inner_text()


async def test_letters_move_around_and_never_out_of_a_field(
    full_site: Site, windows: Windows
) -> None:
    async with windows.tab(full_site.url) as tab:
        keys = tab.page.keyboard
        await tab.open("/")
        await keys.press("g")
        async with tab.page.expect_navigation(url="**/schedules"):
            await keys.press("s")
        await keys.press("j")
        await keys.press("j")
        await keys.press("k")
        first = await tab.page.evaluate("document.activeElement.textContent")
        await keys.press("/")
        await keys.type("report gs?")
        typed = await tab.page.locator("[data-search]").input_value()
        async with tab.page.expect_navigation(url="**/schedules?text=*"):
            await keys.press("Enter")
        await keys.press("?")
        opened = await tab.page.locator("#keys").is_visible()
        await keys.press("Escape")
        closed = await tab.page.locator("#keys").is_visible()

        assert first == "billing/invoices"
        assert typed == "report gs?"
        assert (opened, closed) == (True, False)
        assert tab.place == "/schedules?text=report+gs%3F"


async def test_the_theme_follows_the_system_until_somebody_chooses(
    full_site: Site, windows: Windows
) -> None:
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    async with windows.tab(full_site.url, colours="dark") as tab:
        await tab.open("/")
        dark = await tab.page.evaluate(colour)
        await tab.page.emulate_media(color_scheme="light")
        light = await tab.page.evaluate(colour)
        await tab.page.keyboard.press("t")
        chosen = await tab.page.evaluate(colour)
        await tab.open("/runs")

        assert (dark, light, chosen) == ("rgb(15, 20, 25)", "rgb(255, 255, 255)", dark)
        assert await tab.page.evaluate(colour) == dark
