"""Args are judged at the door, too, by the handler that this process knows."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from uuid import UUID

import asyncpg
import pydantic
import pytest

from pgcron_ha import App
from pgcron_ha.errors import InvalidInput
from tests.product.client import args_text


@dataclasses.dataclass
class Order:
    number: int
    due: date


class Customer(pydantic.BaseModel):
    name: str
    since: date


class Colour(Enum):
    RED = "red"


app = App()


@app.handler("report")
async def report(day: date, copies: int = 1) -> None: ...


async def test_enqueue_refuses_what_the_handler_would_refuse(database: str) -> None:
    async with App(database) as interface:
        interface.handler("report")(report)
        with pytest.raises(InvalidInput, match="the arg 'day' of py:report is missing"):
            await interface.enqueue(report)
        with pytest.raises(InvalidInput, match="'day' is \"soon\": Input should be a valid date"):
            await interface.enqueue("report", {"day": "soon"})
        with pytest.raises(
            InvalidInput, match="run 2 of 2: the args don't fit py:report: 'copies'"
        ):
            await interface.enqueue_many(
                [
                    {"handler": "report", "args": {"day": "2026-01-31"}},
                    {"handler": "report", "args": {"day": "2026-01-31", "copies": "two"}},
                ]
            )
        assert await interface.enqueue("report", {"day": date(2026, 1, 31), "copies": 2})
        assert await interface.enqueue("unknown", {"anything": 1})


async def test_who_knows_better_may_ask_for_a_run_all_the_same(
    database: str, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with App(database) as interface:
        interface.handler("report")(report)
        await interface.enqueue("report", {"new": 1}, check_args=False)
        await interface.enqueue_many([{"handler": "report", "args": {"new": 2}}], check_args=False)
    kept = await connection.fetch("SELECT args FROM pgcron.run ORDER BY id")
    assert [json.loads(row["args"]) for row in kept] == [{"new": 1}, {"new": 2}]


def test_a_schedule_in_code_is_refused_where_its_args_do_not_fit() -> None:
    with pytest.raises(InvalidInput, match="the arg 'day' of py:report is missing"):
        app.schedule("@daily")(report)
    with pytest.raises(InvalidInput, match="'copies'"):
        app.add_schedule("often", "@hourly", "report", args={"day": "2026-01-31", "copies": None})
    assert app.add_schedule("fine", "@hourly", "report", args={"day": date(2026, 1, 31)}).args == (
        '{"day": "2026-01-31"}'
    )


def test_values_are_written_as_annotations_read_them() -> None:
    written = args_text(
        {
            "order": Order(1, date(2026, 1, 31)),
            "customer": Customer(name="Bo", since=date(2020, 1, 1)),
            "colour": Colour.RED,
            "at": datetime(2026, 1, 31, tzinfo=UTC),
            "every": timedelta(minutes=90),
            "id": UUID(int=7),
            "amount": Decimal("12.50"),
            "path": Path("a/b"),
            "tags": {"a"},
        }
    )
    assert json.loads(written) == {
        "order": {"number": 1, "due": "2026-01-31"},
        "customer": {"name": "Bo", "since": "2020-01-01"},
        "colour": "red",
        "at": "2026-01-31T00:00:00Z",
        "every": "PT1H30M",
        "id": str(UUID(int=7)),
        "amount": "12.50",
        "path": "a/b",
        "tags": ["a"],
    }
    with pytest.raises(InvalidInput, match="can't be written as JSON"):
        args_text({"x": object()})
    with pytest.raises(InvalidInput, match="NUL"):
        args_text({"customer": Customer(name="\0", since=date(2020, 1, 1))})


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('"{\\"day\\": 1}"', 'It is quoted twice: write {"day": 1}.'),
        ('feed="7"', 'Write {"feed": "7"}.'),
        ("feed=7", 'Write {"feed": 7}.'),
        ("feed=all of it", 'Write {"feed": "all of it"}.'),
        ('"7"', 'Write for example {"day": 1}.'),
        ("{day: 1}", 'Write for example {"day": 1}.'),
    ],
)
def test_args_that_are_no_object_are_answered_with_what_was_meant(text: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        args_text(text)
    assert refusal.value.hint == hint


@pytest.mark.parametrize(("value", "pair"), [(7, "feed='\"7\"'"), (True, "feed='\"true\"'")])
def test_a_text_that_reads_as_a_number_is_answered_with_its_quotes(
    value: object, pair: str
) -> None:
    interface = App("postgresql://nobody@localhost/nothing", schema="pgcron")

    @interface.handler("load")
    def load(feed: str) -> None: ...

    with pytest.raises(InvalidInput, match="Input should be a valid string") as refusal:
        interface.enqueue_statement("load", {"feed": value})
    assert str(refusal.value.hint).endswith(f"On the command line this text is written {pair}.")
