"""Whether a row is in a scope, as statements and triggers ask it."""

from __future__ import annotations

import pytest

from tests.db.control import Connection, put_schedule
from tests.product.model import Grant, Person

ASKED = "SELECT pgcron.in_scope(NULL, $1, $2, $3, $4, NULL, $5)"


def patterns(*grants: Grant) -> list[str] | None:
    scopes = Person("ui:me", grants).scopes("runs:read")
    return None if scopes is None else list(scopes)


@pytest.mark.parametrize(
    ("scope", "name", "fits"),
    [
        ("mail", "mail", True),
        ("mail", "mail-2", False),
        ("mail-*", "mail-2", True),
        ("mail-*", "mail", False),
        ("*", "anything", True),
        ("a_b", "axb", False),
        ("a_b", "a_b", True),
        ("100%", "100x", False),
        ("100%*", "100% sure", True),
        ("a\\b*", "a\\bc", True),
        ("a*b", "axb", False),
        ("a*b", "a*b", True),
        ("Mail", "mail", False),
    ],
)
async def test_a_scope_is_a_name_or_how_names_begin(
    connection: Connection, scope: str, name: str, fits: bool
) -> None:
    for place, kind in enumerate(("queue", "handler", "schedule")):
        of_row: list[str | None] = [None, None, None]
        of_row[place] = name
        given = patterns(Grant("viewer", kind, scope))
        assert await connection.fetchval(ASKED, *of_row, None, given) is fits
    tagged = patterns(Grant("viewer", "tag", scope))
    assert await connection.fetchval(ASKED, None, None, None, ["other", name], tagged) is fits


async def test_grants_add_up_and_none_is_nothing(connection: Connection) -> None:
    row = ("mail", "py:send", None, ["eu"])
    assert await connection.fetchval(ASKED, *row, patterns()) is False
    two = patterns(Grant("viewer", "queue", "other"), Grant("operator", "tag", "eu"))
    assert await connection.fetchval(ASKED, *row, two) is True
    assert await connection.fetchval(ASKED, *row, patterns(Grant("viewer"))) is True
    assert await connection.fetchval(ASKED, *row, None) is True


async def test_a_run_belongs_to_the_team_of_its_schedule_else_of_its_queue(
    connection: Connection,
) -> None:
    await connection.execute("SELECT pgcron.set_team('queue', 'mail', 'post')")
    owned = await put_schedule(connection, "owned", queue="mail", owner="billing")
    nobodys = await put_schedule(connection, "nobodys", queue="mail")
    for schedule, team in ((owned, "billing"), (nobodys, "post"), (None, "post")):
        for asked in ("billing", "post"):
            found = await connection.fetchval(
                "SELECT pgcron.in_scope($1, 'mail', 'py:x', NULL, NULL, NULL, $2)",
                schedule,
                patterns(Grant("viewer", "team", asked)),
            )
            assert found is (team == asked)


async def test_a_transaction_without_scopes_is_for_everything(connection: Connection) -> None:
    await put_schedule(connection, "s")
    assert await connection.fetchval("SELECT pgcron.in_scope(NULL, 'q', NULL, NULL, NULL)") is True
    async with connection.transaction():
        await connection.execute("SELECT set_config('pgcron_ha.scopes', '{}', true)")
        asked = "SELECT pgcron.in_scope(NULL, 'q', NULL, NULL, NULL)"
        assert await connection.fetchval(asked) is False
    assert await connection.fetchval("SELECT pgcron.in_scope(NULL, 'q', NULL, NULL, NULL)") is True
