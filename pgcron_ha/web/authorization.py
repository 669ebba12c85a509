"""Whether a person may open a route, and how much of everything the pages then read."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from pgcron_ha.db.commands.roles import reached, record_refusal
from pgcron_ha.db.driver.scopes import SCOPES
from pgcron_ha.db.driver.session import Session
from pgcron_ha.errors import NotFound, PgcronError, Refused
from pgcron_ha.model.permissions import ROLES
from pgcron_ha.telemetry.log import LOGGER
from pgcron_ha.web.page_request import INTERFACE, PageRequest

OPEN: Final = "open"
_ONE: Final = {"dead": "dead letter", "storage": "table"}


async def authorize(page_request: PageRequest, permission: str, path: str) -> None:
    """Everything that is read from here on is within the person's scopes.

    `path` is the route's. Raises Refused without the permission, and NotFound for an object that
    is beyond these scopes: the same whether it exists or not.
    """
    person = page_request.person
    SCOPES.set(person.scopes_as["viewer"])
    if permission == OPEN:
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
        what = _ONE.get(kind, kind[:-1])
        raise NotFound(
            f"{what} '{name[:200]}' does not exist",
            "Or it is none of those that your roles are for.",
            f"Look for it in the list of {what}s.",
        )
    page_request.roles = {role: bool(found.value[role]) for role in ROLES}
    if not page_request.may(permission):
        raise page_request.refusal()


async def keep_refusal(page_request: PageRequest, route: str, error: Refused) -> None:
    """Records what was refused; where that can't be, the refusal stands."""
    kind, name = page_request.object or ("page", "")
    services = page_request.services
    with suppress(PgcronError):
        async with services.writers.connection(services.dsn) as connection:
            actor, address = page_request.person.actor, page_request.address
            session = Session(connection, page_request.schema, actor, INTERFACE, address)
            await session.act(record_refusal, route, kind, name, error.message)
            return
    logging.getLogger(LOGGER).warning("%s of %s %s was refused: %s", route, kind, name, error)
