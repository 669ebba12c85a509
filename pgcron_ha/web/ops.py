"""Probes and metrics on a listener of their own, which may be reached from other machines.

A request needs no login and no name of this machine, so there is nothing else: no page, no verb,
and no ``/statusz``, which has the ids of runs and what the database said.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pgcron_ha.config.values import Address
from pgcron_ha.model.permissions import NOBODY
from pgcron_ha.web import probes
from pgcron_ha.web.connections import Bounds
from pgcron_ha.web.page_request import Endpoint, PageRequest
from pgcron_ha.web.services import Services
from pgcron_ha.web.serving import WebServer

BOUNDS: Final = Bounds(most=128, head_seconds=10, body_seconds=10, answer_seconds=30)
"""Of the connections to the listener: a few scrapers and probes."""

_PROBES: Final[dict[str, Endpoint]] = {
    "livez": probes.show_livez,
    "readyz": probes.show_readyz,
    "startupz": probes.show_startupz,
    "metrics": probes.show_metrics,
}
_HEADERS: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def ops_listener(services: Services, listen: Address, *, is_alone: bool) -> WebServer:
    """A server of probes and metrics that listens already. Raises ConfigError if it can't.

    `is_alone`: there are no pages, whose application would pulse, and close what `services` opened.
    """
    app = create_ops_app(services, is_alone=is_alone)
    return WebServer(app, listen, may_be_reached=True, bounds=BOUNDS)


def create_ops_app(services: Services, *, is_alone: bool) -> Starlette:
    """Answers GET and HEAD of `_PROBES`, and 404 or 405 to everything else."""

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        if not is_alone:
            yield
            return
        pulse = asyncio.create_task(services.pulse.run())
        try:
            yield
        finally:
            pulse.cancel()
            await services.reader.close()

    app = Starlette(
        routes=[_route(name, probe, services) for name, probe in _PROBES.items()],
        lifespan=life,
        exception_handlers={404: _no_route, 405: _no_route},
    )
    app.router.redirect_slashes = False
    return app


def _route(name: str, probe: Endpoint, services: Services) -> Route:
    async def answer(request: Request) -> Response:
        began = perf_counter()
        response = await probe(PageRequest(request, services, NOBODY))
        response.headers.update(_HEADERS)
        services.metrics.answered(
            name, request.method, response.status_code, perf_counter() - began
        )
        return response

    return Route(f"/{name}", answer, methods=["GET"])


async def _no_route(_: Request, problem: Exception) -> Response:
    """The same for every address, so that nobody learns from it which there are."""
    status = getattr(problem, "status_code", 404)
    allowed = {"allow": "GET, HEAD"} if status == 405 else {}
    return PlainTextResponse("Only probes and metrics are here.\n", status, {**_HEADERS, **allowed})
