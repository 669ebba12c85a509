"""Errors as pages: what happened, the rule behind it, what to do now. Never a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from pgcron_ha import errors
from pgcron_ha.web.address import WrongAddress
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.viewing import NAVIGATION

_STATUSES: Final[tuple[tuple[type[errors.PgcronError], int, str], ...]] = (
    (errors.TooLarge, 413, "Too large"),
    (errors.InvalidInput, 400, "That can't be"),
    (errors.NotFound, 404, "Not found"),
    (errors.Conflict, 409, "Not now"),
    (errors.Fenced, 409, "Not now"),
    (errors.Refused, 403, "Refused"),
    (errors.SchemaError, 503, "The schema is not as this version needs it"),
    (errors.DatabaseUnavailable, 503, "The database is away"),
)


async def failure_page(
    page_request: PageRequest,
    error: errors.PgcronError,
    status: int | None = None,
    near: Sequence[tuple[str, str]] = (),
) -> Response:
    """The page of an error, with the status of its kind; `near` are words and addresses."""
    found, heading = next(
        ((code, words) for kind, code, words in _STATUSES if isinstance(error, kind)),
        (500, "That failed"),
    )
    return page_request.page(
        "error.html",
        None,
        title=heading,
        status=status or found,
        message=error.message,
        # What a driver says of a server names its address and more: that is for the process's log.
        detail=None if isinstance(error, errors.DatabaseUnavailable) else error.detail,
        hint=error.hint,
        page=error.page,
        # Names and addresses that may have been meant.
        near=(*near, *getattr(error, "near", ()), *_corrections(page_request, error)),
    )


def near_pages(path: str) -> list[tuple[str, str]]:
    """For a path that no route has: what it may be, by its first segment, or what is above it."""
    words = [route for route, _, _ in NAVIGATION]
    first, *rest = path.strip("/").split("/")
    above = "/".join(rest[:-1]) if first in words else "/".join(rest[:1])
    return [
        (found, found)
        for word in difflib.get_close_matches(first, words, n=1, cutoff=0.6)
        if (found := f"/{word}/{above}".rstrip("/"))
    ]


def _corrections(page_request: PageRequest, error: errors.PgcronError) -> list[tuple[str, str]]:
    """Words and the addresses that may have been meant, if it is the address that is wrong."""
    if not isinstance(error, WrongAddress) or page_request.request.method == "POST":
        return []
    path = page_request.request.scope.get("root_path", "") + page_request.request.scope["path"]
    found = error.corrected(page_request.request.url.query)
    return [(word, f"{path}?{query}" if query else path) for word, query in found]
