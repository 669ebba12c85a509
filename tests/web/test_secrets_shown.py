"""In pages an encrypted value is a word."""

from __future__ import annotations

import html
import json
from typing import Any

import pytest

from tests.web.conftest import Site

DATA = "c2VjcmV0IHZhbHVl" * 20
VALUE = {"$secret": {"key": "0a1b2c3d", "data": DATA}}


@pytest.mark.parametrize("before", [0, 60, 250, 300, 2000, 3990, 4080])
async def test_pages_show_no_encrypted_value_wherever_a_text_is_cut(
    site: Site, connection: Any, before: int
) -> None:
    args = json.dumps({"a": "x" * before, "card": VALUE, "list": [VALUE]})
    run = await connection.fetchval("SELECT pgcron.enqueue('py:charge', $1::jsonb)", args)
    dead = "INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, queue, priority, handler, args,"
    await connection.execute(
        f"{dead} delivery, attempts) VALUES (7, gen_random_uuid(), 'dead', 'default', 5,"
        " 'py:charge', $1::jsonb, 'at_least_once', 1)",
        args,
    )
    put = "SELECT pgcron.put_schedule('pay', '0 3 * * *', 'py:charge', args => $1::jsonb)"
    await connection.execute(put, args)

    for path in (f"/runs/{run}", "/dead", "/schedules/pay", "/schedules/pay/versions"):
        page = html.unescape((await site.get(path)).text)
        assert DATA[:12] not in page, path
        assert "0a1b2c3d" not in page, path
    if before < 2000:
        assert "••• (secret)" in html.unescape((await site.get(f"/runs/{run}")).text)
