"""Errors as pages: what happened, the rule behind it, what to do now. Never a traceback."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

from starlette.responses import Response

from pgcron_ha import errors
from pgcron_ha.db.queries.pages.nodes import MOST_NODES
from pgcron_ha.db.queries.pages.nodes import nodes as all_nodes
from pgcron_ha.db.queries.pages.schedules import near_names
from pgcron_ha.web.page_request import PageRequest

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
# What has a page and a list of its own.
_MISSING: Final = re.compile(r"(schedule|run|calendar|node|backfill) '?(.*?)'? does not exist")
_NODE: Final = "{name} ({state}, {incarnation!s:.8}…)".format_map
_NEAR: Final = 8
IN_FORM: Final = (errors.InvalidInput, errors.Refused, errors.Conflict)
"""What a form shows beside what was typed, with the status of `status_in_form`."""


async def failure_page(
    page_request: PageRequest, error: errors.PgcronError, status: int | None = None
) -> Response:
    """The page of an error, with the status of its kind."""
    found, heading = _status(error)
    return page_request.page(
        "error.html",
        None,
        title=heading,
        status=status or found,
        error=error,
        # What a driver says of a server names its address and more: that is for the process's log.
        detail=None if isinstance(error, errors.DatabaseUnavailable) else error.detail,
        # Names and addresses that may have been meant.
        near=[*getattr(error, "near", ()), *await _near_names(page_request, error)],
    )


def status_in_form(page_request: PageRequest, error: errors.PgcronError) -> int:
    """The status of a form that shows the error; a refusal is recorded as any other is."""
    if isinstance(error, errors.Refused):
        page_request.refused = error
    return _status(error)[0]


def _status(error: errors.PgcronError) -> tuple[int, str]:
    return next(
        ((code, words) for kind, code, words in _STATUSES if isinstance(error, kind)),
        (500, "That failed"),
    )


async def _near_names(
    page_request: PageRequest, error: errors.PgcronError
) -> list[tuple[str, str]]:
    """For what does not exist: the names that are like its, and the list that does not have it."""
    named = _MISSING.match(error.message)
    if named is None or not isinstance(error, errors.NotFound):
        return []
    what, name = named.groups()
    near: list[tuple[str, str]] = []
    # What is wrong with the address is said in any case.
    with suppress(errors.PgcronError):
        if what == "schedule":
            names = await page_request.read("near_schedules", near_names, name)
            of_ledger = page_request.request.scope["path"].endswith("/occurrences")
            page = "occurrences" if of_ledger else "schedule"
            near = [(each, page_request.link(page, name=each)) for each in names.value]
        elif what == "node":
            nodes = await page_request.read("near_nodes", all_nodes, is_dead=None, limit=MOST_NODES)
            near = [
                (_NODE(row), page_request.link("node", incarnation=row["incarnation"]))
                for row in nodes.value
                if row["name"] == name
            ][:_NEAR]
    return [*near, (f"all {what}s", page_request.link(f"{what}s"))]
