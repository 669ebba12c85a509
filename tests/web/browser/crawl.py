"""Follows links from the overview until every kind of page was seen."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import parse_qs, urlsplit

from tests.product.web import ROUTES
from tests.web.browser.watched import Tab

_PATTERNS: Final = [
    (re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(route.path))), route.name)
    for route in ROUTES
    if route.method == "GET"
]
# Answers for programs, and files of pages; and what only pages with login have.
_NO_PAGES: Final = frozenset(
    {
        *("static", "livez", "readyz", "startupz", "statusz", "metrics"),
        *("enter", "login", "login_by_provider", "provider_callback", "account"),
    }
)
PAGES: Final = frozenset(name for _, name in _PATTERNS) - _NO_PAGES


def route_of(address: str) -> str:
    """The name of the route that an address belongs to."""
    path = urlsplit(address).path
    return next(name for pattern, name in _PATTERNS if pattern.fullmatch(path))


async def crawl(tab: Tab, look: Callable[[str], Awaitable[None]]) -> set[str]:
    """Opens one link of each kind, calls `look` with its address; the names of the routes seen.

    Runs are of as many kinds as there are lists of them by state: they look different. Filters are
    followed one by one, not in all their combinations.
    """
    seen: set[str] = set()
    kinds: set[tuple[str, frozenset[str], str | None]] = set()
    waiting = deque([("/", "")])
    while waiting:
        address, origin = waiting.popleft()
        route = route_of(address)
        state = _query(origin if route == "run" else address).get("state", [None])[0]
        kind = (route, frozenset(_query(address)), state)
        if kind in kinds or len(_query(address)) > 1:
            continue
        kinds.add(kind)
        answer = await tab.open(address)
        assert answer.status == 200, address
        await look(address)
        seen.add(route)
        if await tab.page.locator("a[download]").count():
            seen.add("run_log")
        links = await tab.page.locator("a[href]:not([download])").evaluate_all(
            "(all) => all.map((link) => link.getAttribute('href').split('#')[0])"
        )
        waiting.extend((link, address) for link in dict.fromkeys(links) if link)
    return seen


def _query(address: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(address).query)
