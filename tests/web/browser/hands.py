"""Three ways to press a button: Chromium with the script, without it, and a plain HTTP client."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Protocol
from urllib.parse import urlsplit

import httpx

from tests.web.browser.watched import Tab


class Hands(Protocol):
    """Opens pages and presses buttons by the word on them."""

    async def open(self, path: str) -> None: ...

    async def press(self, label: str, *, row: str | None = None, **fields: str) -> str:
        """The button of that word, in the table's row that has the text `row` if it is given; one
        that leads to the page of its verb is pressed there, too.

        `fields` of its form are filled in before. Returns the path of the page that it led to.
        """
        ...

    async def text(self) -> str:
        """What the page says."""
        ...


class BrowserHands:
    """A pointer and a keyboard in a tab."""

    def __init__(self, tab: Tab) -> None:
        self._tab = tab

    async def open(self, path: str) -> None:
        answer = await self._tab.open(path)
        assert answer.status == 200

    async def press(self, label: str, *, row: str | None = None, **fields: str) -> str:
        page = self._tab.page
        scope = page.locator("main")
        if row is not None:
            scope = page.locator("tr", has=page.get_by_role("link", name=row, exact=True)).first
        to_its_page = scope.locator("a.button", has_text=re.compile(f"^{re.escape(label)}$"))
        if row is None and await to_its_page.count():
            async with page.expect_navigation(wait_until="load"):
                await to_its_page.click()
        button = scope.get_by_role("button", name=label, exact=True, include_hidden=True).first
        form = button.locator("xpath=ancestor::form")
        folded = button.locator("xpath=ancestor::details[not(@open)]/summary")
        if await folded.count():
            await folded.click()
        for name, value in fields.items():
            field = form.locator(f"[name={name}]")
            if await field.get_attribute("type") == "checkbox":
                await field.check()
            else:
                await field.fill(value)
        async with page.expect_navigation(wait_until="load"):
            await button.click()
        return urlsplit(page.url).path

    async def text(self) -> str:
        return await self._tab.page.locator("main").inner_text()


class HttpHands:
    """Reads forms as a browser does, and sends them as one."""

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self._origin = url.rstrip("/")
        self._client = client
        self._page = ""

    async def open(self, path: str) -> None:
        answer = await self._client.get(path)
        assert answer.status_code == 200
        self._page = answer.text

    async def press(self, label: str, *, row: str | None = None, **fields: str) -> str:
        verb = _Forms(self._page).verbs.get(label)
        if row is None and verb is not None:
            await self.open(verb)
        forms = _Forms(self._page).found
        form = next(f for f in forms if label in f.buttons and row in (None, *f.row_links))
        assert set(fields) <= set(form.fields)
        answer = await self._client.post(
            form.action, data=form.fields | fields, headers={"origin": self._origin}
        )
        assert answer.status_code == 303, answer.text
        await self.open(answer.headers["location"])
        return urlsplit(answer.headers["location"]).path

    async def text(self) -> str:
        return " ".join(_Forms(self._page).words)


class _Form:
    def __init__(self, action: str, row_links: list[str]) -> None:
        self.action = action
        self.row_links = row_links
        self.fields: dict[str, str] = {}
        self.buttons: list[str] = []


class _Forms(HTMLParser):
    """The POST forms of a page, each with the words of the links in its table's row; and the
    addresses of the pages of verbs, by their words.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[_Form] = []
        self.words: list[str] = []
        self.verbs: dict[str, str] = {}
        self._row_links: list[str] = []
        self._inside: list[str] = []
        self._form: _Form | None = None
        self._field = ""
        self._verb: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if tag == "tr":
            self._row_links = []
        elif tag == "form" and given.get("method") == "post":
            self._form = _Form(given["action"], self._row_links)
            self.found.append(self._form)
        elif tag in ("input", "select", "textarea") and self._form is not None:
            self._form.fields[given["name"]] = given.get("value", "")
            self._field = given["name"]
        elif tag == "option" and "selected" in given and self._form is not None:
            self._form.fields[self._field] = given["value"]
        elif tag == "button" and self._form is not None:
            self._form.buttons.append("")
        if tag in ("a", "button", "form", "main", "textarea"):
            self._inside.append(tag)
        if tag == "a":
            self._row_links.append("")
            self._verb = given["href"] if "?verb=" in given.get("href", "") else None

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            self._inside.remove(tag)
        if tag == "form":
            self._form = None

    def handle_data(self, data: str) -> None:
        if "a" in self._inside and self._row_links:
            self._row_links[-1] += data
        if "a" in self._inside and self._verb is not None:
            self.verbs[data] = self._verb
        if "button" in self._inside and self._form is not None:
            self._form.buttons[-1] += data
        if "textarea" in self._inside and self._form is not None:
            self._form.fields[self._field] += data
        if "main" in self._inside:
            self.words += data.split()
