"""Chromium as people have it, and tabs that note whatever goes wrong in them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Error,
    Page,
    Request,
    Response,
    async_playwright,
)

from tests.entering import cookies

# The system's own, which `.ci/browser` installs; nothing is downloaded.
EXECUTABLE: Final = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# A page that was refused is an error to the console, too; tests of refusals look at the status.
_REFUSED: Final = "Failed to load resource: the server responded with a status of "
_VIOLATIONS: Final = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy ${event.violatedDirective} broken by ${event.blockedURI} ${event.sample}`));
"""

Colours = Literal["light", "dark"]


@dataclass
class Tab:
    """One tab. `troubles` has every dialog, script error, broken policy and foreign request."""

    page: Page
    origin: str
    troubles: list[str] = field(default_factory=list)

    async def open(self, path: str) -> Response:
        """Goes to an address of the server, path and query."""
        answer = await self.page.goto(self.origin + path, wait_until="load")
        assert answer is not None
        return answer

    @property
    def place(self) -> str:
        """Path and query of what is shown."""
        parts = urlsplit(self.page.url)
        return parts.path + (f"?{parts.query}" if parts.query else "")

    async def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        width: int = await self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return max(0, width)  # less than nothing where room is kept for a scroll bar

    def watch(self) -> None:
        """Begin to note."""
        self.page.on("console", self._on_console)
        self.page.on("pageerror", self._on_error)
        self.page.on("dialog", self._on_dialog)
        self.page.on("request", self._on_request)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_REFUSED):
            self.troubles.append(f"{self.place}: {message.type}: {message.text}")

    def _on_error(self, error: Error) -> None:
        self.troubles.append(f"{self.place}: uncaught: {error}")

    async def _on_dialog(self, dialog: Dialog) -> None:
        self.troubles.append(f"{self.place}: a dialog says {dialog.message}")
        await dialog.dismiss()

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith(self.origin + "/") and request.url != self.origin:
            self.troubles.append(f"{self.place}: asks {request.url}")


class Windows:
    """Opens tabs of one browser, each with an empty profile."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    @asynccontextmanager
    async def tab(
        self, url: str, *, script: bool = True, width: int = 1280, colours: Colours = "light"
    ) -> AsyncIterator[Tab]:
        """A tab that was opened for the server at `url`; its troubles fail the test at the end."""
        context: BrowserContext = await self._browser.new_context(
            java_script_enabled=script,
            viewport={"width": width, "height": 844 if width < 600 else 900},
            color_scheme=colours,
            timezone_id="Europe/Berlin",
            accept_downloads=True,
        )
        context.set_default_timeout(15_000)
        await context.add_cookies(
            [{"name": name, "value": value, "url": url} for name, value in cookies(url).items()]
        )
        if script:
            await context.add_init_script(_VIOLATIONS)
        tab = Tab(await context.new_page(), url.rstrip("/"))
        tab.watch()
        try:
            yield tab
        finally:
            await context.close()
        assert tab.troubles == []


@asynccontextmanager
async def chromium() -> AsyncIterator[Windows]:
    """A browser with a profile of its own, gone afterwards."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=EXECUTABLE, headless=True, args=list(FLAGS)
        )
        try:
            yield Windows(browser)
        finally:
            await browser.close()
