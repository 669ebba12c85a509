"""Looks through the document that the browser made of a page for anything that we did not write."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.web.browser.watched import Tab

_LOOK: Final = Path(__file__).with_suffix(".js").read_text()


async def what_is_injected(tab: Tab) -> list[str]:
    """Foreign elements, handlers, addresses and control characters; none in a page of ours."""
    found: list[str] = await tab.page.evaluate(_LOOK)
    return found
