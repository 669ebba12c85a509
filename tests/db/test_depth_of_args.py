"""Args are nested no deeper than every reader of them can follow, whichever way they come."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from pgcron_ha.errors import TooLarge
from tests.db.control import Connection
from tests.product.client import args_text

WAYS = (
    "SELECT pgcron.enqueue('py:work', args => $1::text::jsonb)",
    "INSERT INTO pgcron.run (handler, args) VALUES ('py:work', $1::text::jsonb)",
    "SELECT pgcron.enqueue_many(jsonb_build_array(jsonb_build_object('handler', 'py:work',"
    " 'args', $1::text::jsonb)))",
    "INSERT INTO pgcron.schedule (name, spec, handler, args)"
    " VALUES ('deep', '@daily', 'py:work', $1::text::jsonb)",
)


def nested(levels: int, *, by_lists: bool) -> str:
    """Args so deep: one object, then lists or objects."""
    if by_lists:
        return '{"a": ' + "[" * (levels - 1) + "]" * (levels - 1) + "}"
    return '{"a": ' * levels + "1" + "}" * levels


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("by_lists", [True, False])
async def test_args_of_a_hundred_levels_are_taken_and_no_deeper_ones(
    connection: Connection, way: str, by_lists: bool
) -> None:
    for levels in (101, 1500):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await connection.execute(way, nested(levels, by_lists=by_lists))
        assert refused.value.sqlstate == "PC004"
        assert "args is nested more than 100 levels deep" in str(refused.value)
    await connection.execute(way, nested(100, by_lists=by_lists))


@pytest.mark.parametrize("by_lists", [True, False])
def test_the_client_counts_levels_as_the_database_does(by_lists: bool) -> None:
    taken = json.loads(nested(100, by_lists=by_lists))
    assert json.loads(args_text(taken)) == taken
    for levels in (101, 500, 2000):
        with pytest.raises(Exception, match=r"nested|can't be written|not JSON"):
            args_text(nested(levels, by_lists=by_lists))
    with pytest.raises(TooLarge, match="args is nested 101 levels deep"):
        args_text(nested(101, by_lists=by_lists))


def test_brackets_in_texts_are_no_levels() -> None:
    args: dict[str, Any] = {"pattern": '[{"\\' * 500, "list": [[]] * 200}
    assert json.loads(args_text(args)) == args
