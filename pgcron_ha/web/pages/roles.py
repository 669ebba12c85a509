"""``/roles``: who may see and change what, what teams own, and what each role may do."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from pgcron_ha.db.commands import roles as ask
from pgcron_ha.model.permissions import ROLES, Grant
from pgcron_ha.web.page_request import PageRequest, together

_MOST: Final = 1_000
_ASKED: Final = together(ask.role_grants, ask.owned)


async def show_roles(page_request: PageRequest) -> Response:
    """All of them; they are given with ``pgcron-ha roles grant``."""
    page_request.query()
    snapshot = await page_request.read("roles", _ASKED, limit=_MOST)
    grants, owned = snapshot.value
    rows = [
        {**row, "where": Grant(row["role"], row["scope_kind"], row["scope"]).words}
        for row in grants
    ]
    more = {"owned": owned, "roles": ROLES}
    return page_request.page("roles.html", snapshot, title="Roles", rows=rows, **more)
