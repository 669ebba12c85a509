from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from pgcron_ha.db.clients import connect_client
from pgcron_ha.db.dsn import password_of, without_password
from pgcron_ha.demo.accounting import Account, Entry, judge, read_accounts
from pgcron_ha.demo.summary import summary_lines, unaccounted_error

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
FIRES = [NOON + timedelta(seconds=number) for number in range(5)]
SUCCEEDED = Entry("run", 1, None, ["succeeded"], 1)


def account(
    ledger: dict[datetime, Entry], missed: list[tuple[datetime, datetime]] | None = None
) -> Account:
    return judge("tick", FIRES, ledger, missed or [])


def everything_but(*fires: datetime) -> dict[datetime, Entry]:
    return {fire: SUCCEEDED for fire in FIRES if fire not in fires}


def test_fires_that_ran_wait_are_skipped_or_missed_are_accounted_for() -> None:
    ledger = {
        FIRES[0]: Entry("run", 1, None, ["succeeded"], 2),
        FIRES[1]: Entry("run", 2, "running", [], 0),
        FIRES[2]: Entry("skipped", 3, None, ["skipped"], 0),
    }

    found = account(ledger, [(FIRES[3], FIRES[4])])

    assert (found.owed, found.missed, found.waiting, found.retried) == (5, 2, 1, 1)
    assert found.outcomes == {"succeeded": 1, "skipped": 1}
    assert found.problems == ()
    assert unaccounted_error([found], "logs") is None


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (None, "was not decided"),
        (Entry("run", 7, None, [], 0), "has the run 7, which is nowhere"),
        (Entry("run", 7, None, ["succeeded", "dead"], 1), "has the run 7, which ended 2 times"),
        (Entry("run", 7, "ready", ["succeeded"], 1), "has the run 7, which is alive and has ended"),
    ],
)
def test_a_fire_without_exactly_one_fate_is_named(entry: Entry | None, sentence: str) -> None:
    ledger = everything_but(FIRES[2])
    if entry is not None:
        ledger[FIRES[2]] = entry

    found = account(ledger)

    assert found.problems == (f"2026-05-01T12:00:02+00:00 {sentence}",)
    error = unaccounted_error([found], "logs")
    assert error is not None
    assert error.message == "1 due occurrences are not accounted for"
    assert error.detail == f"tick: 2026-05-01T12:00:02+00:00 {sentence}"
    assert "1 of 5 due occurrences are NOT" in summary_lines([found], 1.0, "2 nodes", None)[-1]


def test_a_fire_that_is_decided_twice_is_named() -> None:
    both = account(everything_but(), [(FIRES[1], FIRES[1])])
    overlapping = account(everything_but(FIRES[1]), [(FIRES[1], FIRES[1]), (FIRES[0], FIRES[1])])

    assert both.problems == (
        "2026-05-01T12:00:01+00:00 stands in the ledger and in a missed range",
    )
    assert "2026-05-01T12:00:01+00:00 lies in 2 missed ranges" in overlapping.problems


def test_a_decision_that_the_spec_does_not_name_is_named() -> None:
    found = account({**everything_but(), NOON + timedelta(milliseconds=500): SUCCEEDED})

    assert len(found.problems) == 1
    assert found.problems[0].endswith("was decided, but the spec does not name it")


async def test_the_accounts_are_read_from_what_is_stored(database: str) -> None:
    """A row that disappears from the ledger, or a run from everywhere, is found by its spec."""
    with psycopg.connect(database, autocommit=True) as writer:
        writer.execute(
            "INSERT INTO pgcron.schedule (name, spec, handler)"
            " VALUES ('tick', '* * * * * *', 'py:x');"
            "UPDATE pgcron.cursor SET since = '2026-05-01T11:59:59Z';"
            "INSERT INTO pgcron.missed (schedule_id, first_at, last_at, reason)"
            " SELECT id, '2026-05-01T12:00:00Z', '2026-05-01T12:00:02Z', 'paused'"
            " FROM pgcron.schedule"
        )
    connection = await connect_client(database)
    try:
        (found,) = await read_accounts(
            connection, "pgcron", NOON - timedelta(hours=1), NOON + timedelta(seconds=4)
        )
    finally:
        await connection.close()

    assert (found.owed, found.missed) == (5, 3)
    assert found.problems == (
        "2026-05-01T12:00:03+00:00 was not decided",
        "2026-05-01T12:00:04+00:00 was not decided",
    )


@pytest.mark.parametrize(
    ("dsn", "bare", "password"),
    [
        ("postgresql://ann:s%40t@h:1/d", "postgresql://ann@h:1/d", "s@t"),
        ("postgresql://ann@h/d", "postgresql://ann@h/d", None),
        ("postgresql:///d?host=/run", "postgresql:///d?host=/run", None),
        ("postgresql://h/d?password=x&port=1", "postgresql://h/d?port=1", "x"),
        ("postgresql://a:b@h1:1,h2:2/d?user=c", "postgresql://a@h1:1,h2:2/d?user=c", "b"),
    ],
)
def test_a_password_is_kept_apart_from_the_dsn(dsn: str, bare: str, password: str | None) -> None:
    assert without_password(dsn) == bare
    assert password_of(dsn) == password
