"""Probes and metrics on a listener of their own, which may be reached from other machines.

A request needs no login and no name of this machine, so there is nothing else: no page, no verb,
and no ``/statusz``, which has the ids of runs and what the database said.
"""

from __future__ import annotations

from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from pgcron_ha.config.values import Address
from pgcron_ha.web.app import routed
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.routes import ROUTES, WebRoute
from pgcron_ha.web.security import PLAIN_HEADERS
from pgcron_ha.web.services import Services
from pgcron_ha.web.serving import Bounds, WebServer

BOUNDS: Final = Bounds(most=128, head_seconds=10, body_seconds=10, answer_seconds=30)
"""Of the connections to the listener: a few scrapers and probes."""

_PROBES: Final = frozenset({"livez", "readyz", "startupz", "metrics"})


def ops_listener(services: Services, listen: Address, *, is_alone: bool) -> WebServer:
    """A server of probes and metrics that listens already: it answers GET and HEAD of `_PROBES`,
    and 404 or 405 to everything else. Raises ConfigError if it can't.

    `is_alone`: there are no pages, whose application would pulse, and close what `services` opened.
    """
    app = Starlette(
        routes=[routed(route, services, _answer) for route in ROUTES if route.name in _PROBES],
        lifespan=(lambda _: services.life()) if is_alone else None,
        exception_handlers={404: _no_route, 405: _no_route},
    )
    app.router.redirect_slashes = False
    return WebServer(app, listen, may_be_reached=True, bounds=BOUNDS)


async def _answer(request: Request, services: Services, route: WebRoute) -> Response:
    response = await route.endpoint(PageRequest(request, services))
    response.headers.update(PLAIN_HEADERS)
    return response


async def _no_route(_: Request, problem: Exception) -> Response:
    """The same for every address, so that nobody learns from it which there are."""
    status = getattr(problem, "status_code", 404)
    allowed = {"allow": "GET, HEAD"} if status == 405 else {}
    headers = {**PLAIN_HEADERS, **allowed}
    return PlainTextResponse("Only probes and metrics are here.\n", status, headers)
