"""``/roles``: who may see and change what, what teams own, and what each role may do."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from pgcron_ha.db.commands import roles as ask
from pgcron_ha.model.permissions import ROLES, where_held
from pgcron_ha.web.page_request import PageRequest, together

_MOST: Final = 1_000
_ASKED: Final = together(ask.role_grants, ask.owned)


async def show_roles(page_request: PageRequest) -> Response:
    """All of them; they are given with ``pgcron-ha roles grant``."""
    page_request.query()
    snapshot = await page_request.read("roles", _ASKED, limit=_MOST)
    grants, owned = snapshot.value
    more = {"rows": grants, "owned": owned, "roles": ROLES, "where": where_held}
    return page_request.page("roles.html", snapshot, title="Roles", **more)
