"""The application: routes, who may open them, and errors as pages."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import perf_counter
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pgcron_ha.db.commands.login import reached, record_refusal
from pgcron_ha.db.driver.scopes import SCOPES
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.errors import InvalidInput, NotFound, PgcronError, Refused
from pgcron_ha.model.permissions import NOBODY, ROLES, Grant, Person
from pgcron_ha.spec.zones import load_zone
from pgcron_ha.telemetry.log import LOGGER
from pgcron_ha.telemetry.node_snapshot import LookAtNode
from pgcron_ha.web.access import BadToken, Entry
from pgcron_ha.web.address import NoSuch, singular, starlette_path
from pgcron_ha.web.failures import failure_page
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages.login import turned_away
from pgcron_ha.web.routes import ROUTES, WebRoute
from pgcron_ha.web.security import BodyTooLarge, Guard
from pgcron_ha.web.services import Services
from pgcron_ha.web.templating import templates

__all__ = ["Entry", "Grant", "Person", "create_app"]

_BROKEN: Final = "Something went wrong here; the server's log has the details under {number}.\n"
_BAD_TOKEN: Final = (
    "The token is not valid, or not any more: `pgcron-ha tokens list` shows those that are.\n"
)


def create_app(
    dsn: str,
    *,
    schema: str = DEFAULT_SCHEMA,
    version: str = "0",
    look: LookAtNode | None = None,
    write_dsn: str | None = None,
    entry: Entry = Entry(),
) -> Starlette:
    """The pages, probes and metrics of the cluster in this database, as an ASGI application.

    Nothing is connected before the first request. `entry` says who is let in: by default nobody
    sees more than probes, documents and the pages' own files. `look` is at the node of this
    process, if it has one: its metrics are added, and it is ready while the node is. Verbs go to
    `write_dsn`, by default the same. What the pages share is `state.services`.
    It serves one event loop; its lifespan must be run, as any server does.
    """
    templates()  # compiled now, and not while the first viewer waits
    services = Services(
        dsn, schema=schema, version=version, look=look, write_dsn=write_dsn, entry=entry
    )
    services.routes = {route.name: (route.path, route.permission) for route in ROUTES}
    app = Starlette(
        routes=[routed(route, services, _answer) for route in ROUTES],
        lifespan=lambda _: services.life(),
        exception_handlers={404: _no_route, 405: _no_route},
    )
    app.state.services = services
    # An overview of 200 KB has 13 KB so; no page has a secret beside what an address says.
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=4)
    app.add_middleware(Guard, site=entry.site)
    return app


def routed(
    route: WebRoute,
    services: Services,
    answer: Callable[[Request, Services, WebRoute], Awaitable[Response]],
) -> Route:
    """A line of the table for Starlette's router: what `answer` gives, counted and timed."""

    async def counted(request: Request) -> Response:
        began = perf_counter()
        response = await answer(request, services, route)
        services.metrics.answered(
            route.name, request.method, response.status_code, perf_counter() - began
        )
        return response

    return Route(starlette_path(route.path), counted, methods=[route.method], name=route.name)


async def _answer(request: Request, services: Services, route: WebRoute) -> Response:
    page_request = PageRequest(request, services)
    try:
        if route.permission != "open":
            person = await services.access.person(request)
            if person is None:
                return turned_away(page_request)
            page_request.person = person
        load_zone(request.query_params.get("tz") or "UTC")  # UnknownZone has the nearest names
        await _authorize(page_request, route.permission, route.path)
        answer = await route.endpoint(page_request)
        if page_request.refused is not None:
            await _keep_refusal(page_request, route, page_request.refused)
        return answer
    except BadToken:
        return PlainTextResponse(_BAD_TOKEN, 401, {"www-authenticate": "Bearer"})
    except PgcronError as error:
        refused = error if isinstance(error, Refused) else error.__cause__
        if isinstance(refused, Refused) and page_request.permission:
            await _keep_refusal(page_request, route, refused)
        return await failure_page(page_request, error)
    except BodyTooLarge:
        return PlainTextResponse("The body is too large.\n", 413)
    except ClientDisconnect:
        return Response(status_code=400)  # nobody is there to read it
    except Exception:
        # Neither a traceback nor the error's words: they may hold what the viewer must not see.
        number = secrets.token_hex(4)
        logging.getLogger(LOGGER).exception("request %s of %s failed", number, route.name)
        return PlainTextResponse(_BROKEN.format(number=number), 500)


async def _authorize(page_request: PageRequest, permission: str, path: str) -> None:
    """Everything that is read from here on is within the person's scopes.

    `path` is the route's. Raises Refused without the permission, and NotFound for an object that
    is beyond these scopes: the same whether it exists or not.
    """
    person = page_request.person
    SCOPES.set(person.scopes_as["viewer"])
    if permission == "open":
        return
    page_request.permission = permission
    kind, _, rest = path[1:].partition("/")
    if rest.startswith("{"):
        page_request.object = kind, str(next(iter(page_request.segments.values())))
    if not person.may(permission):
        raise page_request.refusal()
    if page_request.object is None or not person.is_scoped:
        return
    kind, name = page_request.object
    found = await page_request.read("reached", reached, kind, name, *person.scopes_as.values())
    if not found.value["viewer"]:
        is_attempt = page_request.request.method == "POST" and found.value["viewer"] is not None
        # The person learns no more than of a name that nothing has; the audit has the attempt.
        rule = "Or it is none of those that your roles are for."
        refusal = page_request.refusal() if is_attempt else None
        raise NoSuch(singular(kind), name, rule) from refusal
    page_request.roles = {role: bool(found.value[role]) for role in ROLES}
    if not page_request.may(permission):
        raise page_request.refusal()


async def _keep_refusal(page_request: PageRequest, route: WebRoute, error: Refused) -> None:
    """Records what was refused; where that can't be, the refusal stands."""
    about, name = page_request.object or (route.permission.partition(":")[0], None)
    verb, kind = route.audited or ("read", singular(about))
    with suppress(PgcronError):
        async with page_request.session() as session:
            await session.act(record_refusal, verb, kind, name, error.message)
            return
    logging.getLogger(LOGGER).warning("%s of %s %s was refused: %s", verb, kind, name, error)


async def _no_route(request: Request, problem: Exception) -> Response:
    """The page for an address (404) or a method (405) that no route has."""
    services: Services = request.app.state.services
    path = str(request.scope["path"])[:200]
    status = problem.status_code if isinstance(problem, HTTPException) else 404
    error: PgcronError = NotFound(
        f"there is no page '{path}'", "Addresses are spelled exactly.", "Start at the overview."
    )
    if status == 405:
        error = InvalidInput(
            f"this address does not take {request.method}",
            "What changes something is POST, what shows something is GET.",
            "Use the buttons of the pages.",
        )
    services.metrics.answered("(none)", request.method, status, 0.0)
    page_request = PageRequest(request, services)
    with suppress(Exception):  # who can't be found out is nobody: the answer stays
        page_request.person = await services.access.person(request) or NOBODY
    return await failure_page(page_request, error, status)
