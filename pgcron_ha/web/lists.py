"""What pages of lists share: the filters of their address, and words to choose one of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pgcron_ha.web.formats import plain
from pgcron_ha.web.page_request import PageRequest


class Choice(NamedTuple):
    """A word to choose, and the list that it leads to."""

    word: str
    href: str
    is_chosen: bool


def chips(
    page_request: PageRequest, route: str, filters: Mapping[str, str], *, but: str = ""
) -> list[tuple[str, str]]:
    """Each filter in words, with the address without it; `but` is one that is chosen otherwise."""
    return [
        (
            f"{name}: {plain(value)}",
            page_request.link(route, {key: v for key, v in filters.items() if key != name}),
        )
        for name, value in filters.items()
        if name != but
    ]


def choices(
    page_request: PageRequest,
    route: str,
    name: str,
    words: Sequence[str | None],
    filters: Mapping[str, str],
    chosen: str | None,
    /,
    **segments: str,
) -> list[Choice]:
    """The words of one filter, None for all; the other `filters` stay as they are."""
    others: dict[str, Any] = {key: value for key, value in filters.items() if key != name}
    return [
        Choice(
            word or "all",
            page_request.link(route, {**others, name: word}, **segments),
            word == chosen,
        )
        for word in words
    ]
