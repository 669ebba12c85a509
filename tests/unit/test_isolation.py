"""A batch meets items that are refused, locked or too slow, and goes on without them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pgcron_ha.errors import DatabaseUnavailable, InvalidInput, PgcronError, Refused
from tests.product.db import Busy, TableBusy, Unanswered
from tests.product.engine import MOST_ASIDE, SetAside, isolate


class Sending:
    """Refuses, or does not answer for, any part that holds one of the bad numbers."""

    def __init__(self, bad: dict[int, PgcronError]) -> None:
        self.bad = bad
        self.done: list[int] = []
        self.refused: list[tuple[int, PgcronError]] = []
        self.delayed: list[tuple[int, PgcronError]] = []
        self.statements = 0

    async def send(self, part: Sequence[int]) -> int:
        self.statements += 1
        for number in part:
            if number in self.bad:
                raise self.bad[number]
        self.done += part
        return len(part)

    async def refuse(self, number: int, error: PgcronError) -> None:
        self.refused.append((number, error))

    def delay(self, number: int, error: PgcronError) -> None:
        self.delayed.append((number, error))

    async def run(self, size: int) -> list[int]:
        return await isolate(range(size), self.send, self.refuse, self.delay)


async def test_a_batch_without_a_bad_item_is_one_statement() -> None:
    sending = Sending({})

    assert await sending.run(500) == [500]
    assert sending.statements == 1


async def test_each_bad_item_stands_alone_in_the_end_and_all_others_get_done() -> None:
    refused, locked, lost = InvalidInput("no"), Busy("locked"), Unanswered("lost")
    sending = Sending({7: refused, 99: locked, 499: lost})

    assert sum(await sending.run(500)) == 497
    assert sorted({*range(500)} - {*sending.done}) == [7, 99, 499]
    assert sending.refused == [(7, refused)]
    assert sending.delayed == [(99, locked), (499, lost)]
    assert sending.statements < 70


async def test_without_a_database_there_is_nothing_to_isolate() -> None:
    sending = Sending({3: DatabaseUnavailable("away")})

    with pytest.raises(DatabaseUnavailable):
        await sending.run(8)
    assert sending.statements == 1
    assert sending.refused == []


async def test_a_right_that_is_missing_for_all_is_no_item_s_fault() -> None:
    sending = Sending({number: Refused("permission denied") for number in range(300)})

    with pytest.raises(Refused):
        await sending.run(300)
    assert sending.refused == []
    assert sending.statements < 50


async def test_a_right_that_is_missing_for_one_is_that_item_s_fault() -> None:
    sending = Sending({5: Refused("permission denied")})

    await sending.run(300)
    assert [number for number, _ in sending.refused] == [5]


def test_what_was_set_aside_is_tried_again_later_and_later() -> None:
    aside: SetAside[int] = SetAside()
    aside.put(1, "run 1", "locked")
    first = aside.next_try()
    aside.put(1, "run 1", "still locked")
    second = aside.next_try()

    assert aside.waits(1)
    assert aside.waiting() == [1]
    assert not aside.waits(2)
    assert first is not None
    assert second is not None
    assert second > first
    assert [(entry.what, entry.error, entry.tries) for entry in aside.entries()] == [
        ("run 1", "still locked", 2)
    ]

    aside.forget(1)
    assert aside.next_try() is None


def test_a_register_is_bounded() -> None:
    aside: SetAside[int] = SetAside()
    for number in range(MOST_ASIDE + 10):
        aside.put(number, f"run {number}", "locked")

    assert len(aside) == MOST_ASIDE


@pytest.mark.parametrize("size", [2, 500])
async def test_a_locked_table_is_no_row_s_fault_and_soon_given_up(size: int) -> None:
    sending = Sending({number: TableBusy("locked") for number in range(size)})

    with pytest.raises(TableBusy):
        await sending.run(size)

    assert sending.statements < 20
    assert sending.delayed == []


async def test_a_locked_partition_keeps_the_rows_of_others_not_waiting() -> None:
    sending = Sending({number: TableBusy("locked") for number in range(250, 500)})

    assert sum(await sending.run(500)) == 250
