"""What a schedule of one team may name of another: neither its queue, nor its key, nor itself."""

from __future__ import annotations

from html import unescape
from http import HTTPStatus

import pytest

from tests.product.model import Grant
from tests.sessions import own_session
from tests.web.tenants import FOREIGN, OWN, add_node, add_tenant, pages_of


@pytest.mark.parametrize(
    ("kind", "field", "value", "words"),
    [
        ("team", "queue", f"{FOREIGN}-mail", f"queue '{FOREIGN}-mail' belongs to another team"),
        ("team", "concurrency_key", f"{FOREIGN}-api", f"key '{FOREIGN}-api' belongs to another"),
        ("queue", "owner", FOREIGN, f"owner '{FOREIGN}' is no team of your roles"),
    ],
)
async def test_a_schedule_takes_nothing_of_another_team(
    database: str, kind: str, field: str, value: str, words: str
) -> None:
    await add_node(database)
    for team in (OWN, FOREIGN):
        await add_tenant(database, team)
    session = await own_session(database)
    await session.execute(f"SELECT pgcron.set_team('key', '{FOREIGN}-api', '{FOREIGN}')")
    new = {"name": "new", "spec": "0 4 * * *", "handler": "py:x", "queue": f"{OWN}-mail"}
    new |= {"owner": OWN} if kind == "team" else {}

    async with pages_of(database) as pages:
        pages.come(Grant("editor", kind, OWN if kind == "team" else f"{OWN}-*"))
        own = f"/schedules/{OWN}-nightly/save"
        for path, fields in (("/new-schedule", new | {field: value}), (own, {field: value})):
            answer = await pages.post(path, **fields)
            assert answer.status_code == HTTPStatus.FORBIDDEN, path
            assert words in unescape(answer.text), path
            assert f'name="{field}" value="{value}"' in answer.text
        kept = "SELECT verb FROM pgcron.audit WHERE (kind, outcome) = ('schedule', 'refused')"
        assert {row["verb"] for row in await session.fetch(kept)} == {"create", "edit"}
        assert (await pages.post("/new-schedule", **new)).is_redirect
        # what an administrator has set stays while the rest is edited
        await session.execute(f"UPDATE pgcron.schedule SET {field} = '{value}' WHERE name = 'new'")
        assert (await pages.post("/schedules/new/save", priority="3")).is_redirect
    await session.close()
