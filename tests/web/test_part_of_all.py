"""What pages say of a part of all to who sees no more: nothing that only all together tell."""

from __future__ import annotations

from tests.product.model import Grant
from tests.sessions import own_session
from tests.web.tenants import FOREIGN, OWN, add_node, add_tenant, pages_of, said


async def test_a_page_after_a_foreign_letter_is_one_after_none(database: str) -> None:
    await add_node(database)
    for team in (OWN, FOREIGN):
        tenant = await add_tenant(database, team)
    session = await own_session(database)
    await session.execute(
        "UPDATE pgcron.dead_letter SET died_at = now() - interval '2 days' WHERE queue = $1",
        f"{FOREIGN}-mail",
    )
    await session.close()
    async with pages_of(database) as pages:
        pages.come(Grant("viewer", "team", OWN))
        after_foreign = await pages.get(f"/dead?before={tenant.dead}")
        after_none = await pages.get("/dead?before=1000000")
        assert said(after_foreign.text) == said(after_none.text)
        assert f"{OWN} went wrong" in after_none.text
