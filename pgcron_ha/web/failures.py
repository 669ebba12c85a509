"""Errors as pages: what happened, the rule behind it, what to do now. Never a traceback."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from pgcron_ha.errors import (
    Conflict,
    DatabaseUnavailable,
    Fenced,
    InvalidInput,
    NotFound,
    PgcronError,
    Refused,
    SchemaError,
    TooLarge,
)
from pgcron_ha.web.contexts import ErrorView
from pgcron_ha.web.visit import Visit

_STATUSES: Final[tuple[tuple[type[PgcronError], int, str], ...]] = (
    (TooLarge, 413, "Too large"),
    (InvalidInput, 400, "That can't be"),
    (NotFound, 404, "Not found"),
    (Conflict, 409, "Not now"),
    (Fenced, 409, "Not now"),
    (Refused, 403, "Refused"),
    (SchemaError, 503, "The schema is not as this version needs it"),
    (DatabaseUnavailable, 503, "The database is away"),
)


async def failure_page(visit: Visit, error: PgcronError, status: int | None = None) -> Response:
    """The page of an error, with the status of its kind."""
    found, heading = next(
        ((code, words) for kind, code, words in _STATUSES if isinstance(error, kind)),
        (500, "That failed"),
    )
    view = ErrorView(
        status=status or found,
        heading=heading,
        message=error.message,
        detail=error.detail,
        hint=error.hint,
        near=tuple(getattr(error, "near", ())),
    )
    return visit.page("error.html", view, None, title=heading, section="", status=view.status)
