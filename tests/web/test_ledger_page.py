from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import quote
from zoneinfo import ZoneInfo

import asyncpg
import pytest

from pgcron_ha.errors import InvalidInput
from tests.product.model import reason_words
from tests.product.web import instants
from tests.sessions import own_session
from tests.web.conftest import Site
from tests.web.seed import EMOJI_NAME, HOSTILE_NAME, LONG_NAME, RIGHT_TO_LEFT_NAME

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def ledger_of(name: str, query: str = "") -> str:
    return f"/schedules/{quote(name, safe='')}/occurrences" + (f"?{query}" if query else "")


async def fetch(dsn: str, statement: str, *values: object) -> list[asyncpg.Record]:
    connection = await own_session(dsn)
    try:
        return await connection.fetch(statement, *values)
    finally:
        await connection.close()


async def make_old(dsn: str) -> None:
    """Schedules that exist since 2019, which their triggers would not let anybody write."""
    connection = await own_session(dsn)
    await connection.execute(
        "SET session_replication_role = replica;"
        " UPDATE pgcron.schedule SET created_at = '2019-01-01 00:00Z'"
    )
    await connection.close()


def rows(page: str) -> list[str]:
    """The text of each row of the ledger."""
    body = page.partition('id="ledger"')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    return [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in body.split("<tr")[1:]]


def answers(page: str) -> str:
    """The text of the answers."""
    body = page.partition('id="answers"')[2].partition("</section>")[0]
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


async def test_the_ledger_tells_decision_reason_run_and_outcome(read_site: Site) -> None:
    page = await read_site.get(ledger_of("etl/orders"))

    shown = rows(page.text)
    assert len(shown) == 41
    assert re.search(
        r"∅ skipped The last run was not over, and the schedule skips what overlaps \d+", shown[0]
    )
    assert re.search(r"→ run \d+ ✓ succeeded", shown[3])
    assert "∅ missed It was late, and older than the catch-up window 16 fires" in shown[-1]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (ledger_of("etl/orders", "decision=upstream_failed"), "No fire was upstream failed"),
        ("/runs?state=upstream_failed&tag=none", "state: upstream failed"),
    ],
)
async def test_filters_name_states_in_words(read_site: Site, address: str, said: str) -> None:
    page = await read_site.get(address)

    text = " ".join(re.sub(r"<[^>]+>", " ", page.text).split())
    assert said in text
    assert "upstream_failed" not in text


async def test_times_stand_in_the_schedules_zone_and_utc(
    full_site: Site, full_database: str
) -> None:
    page = await full_site.get(ledger_of("nightly-backup"))

    (found,) = await fetch(
        full_database,
        "SELECT max(fire_at) AS at FROM pgcron.occurrence o JOIN pgcron.schedule s"
        " ON s.id = o.schedule_id WHERE s.name = 'nightly-backup'",
    )
    at: datetime = found["at"]
    both = f"{at.astimezone(BERLIN):%Y-%m-%d %H:%M:%S} {at:%Y-%m-%d %H:%M:%S}"
    assert both in rows(page.text)[0]


async def test_every_decision_filters_the_ledger(full_site: Site, full_database: str) -> None:
    [row] = await fetch(
        full_database,
        "SELECT regexp_matches(pg_get_constraintdef(oid), 'ARRAY\\[(.*?)\\]') AS found"
        " FROM pg_constraint WHERE conname = 'a_decision_is_known' AND conislocal",
    )
    for word in re.findall(r"'(\w+)'", row["found"][0]):
        page = await full_site.get(ledger_of("etl/orders", f"decision={word}"))
        assert page.status_code == 200, word


@pytest.mark.parametrize(("decision", "count"), [("skipped", 3), ("missed", 1), ("expired", 0)])
async def test_a_decision_filters_the_ledger(read_site: Site, decision: str, count: int) -> None:
    page = await read_site.get(ledger_of("etl/orders", f"decision={decision}"))

    assert len(rows(page.text)) == count
    assert (f"No fire was {decision}" in page.text) == (count == 0)


async def test_a_filter_says_how_far_it_searched_and_goes_on_from_there(
    full_site: Site, full_database: str
) -> None:
    await fetch(
        full_database,
        """WITH chosen AS (SELECT id FROM pgcron.schedule WHERE name = 'nightly-backup')
           INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason)
           SELECT id, timestamptz '2026-01-01Z' + n * interval '1 s',
                  CASE n WHEN 9 THEN 'expired' ELSE 'superseded' END, 'overlap_skipped'
           FROM chosen, generate_series(1, 20100) n""",
    )
    pages = []
    path: str | None = ledger_of("nightly-backup", "decision=expired")
    while path is not None:
        page = (await full_site.get(path)).text.replace("\N{NARROW NO-BREAK SPACE}", " ")
        pages.append((len(rows(page)), re.findall(r"the (\w+ [\d ]+) were searched", page)))
        found = re.search(r'href="([^"]+)" rel="next"', page)
        path = found[1].replace("&amp;", "&") if found else None
    missed = (await full_site.get(ledger_of("nightly-backup", "decision=missed"))).text

    assert pages == [(0, ["newest 20 000"]), (1, [])]
    assert "were searched" not in missed


async def test_every_decision_is_on_exactly_one_page(full_site: Site, full_database: str) -> None:
    await fetch(
        full_database,
        """WITH chosen AS (SELECT id FROM pgcron.schedule WHERE name = 'etl/orders'),
           fires AS (INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason)
             SELECT id, now() - n * interval '7 minutes', 'skipped', 'overlap_skipped'
             FROM chosen, generate_series(1, 120) n)
           INSERT INTO pgcron.missed (schedule_id, first_at, last_at, reason)
           SELECT id, now() - n * interval '7 minutes', now() - n * interval '7 minutes', 'paused'
           FROM chosen, generate_series(1, 120) n""",
    )
    seen: list[str] = []
    path: str | None = ledger_of("etl/orders")
    while path is not None:
        page = await full_site.get(path)
        seen += rows(page.text)
        found = re.search(r'href="([^"]+)" rel="next"', page.text)
        path = found[1].replace("&amp;", "&") if found else None

    assert len(seen) == 41 + 240


async def test_why_names_the_run_that_a_fire_became(full_site: Site, full_database: str) -> None:
    (found,) = await fetch(
        full_database,
        "SELECT fire_at, run_id FROM pgcron.occurrence o JOIN pgcron.schedule s"
        " ON s.id = o.schedule_id WHERE s.name = 'etl/orders' AND decision = 'run' LIMIT 1",
    )

    page = await full_site.get(ledger_of("etl/orders", f"at={quote(found['fire_at'].isoformat())}"))

    assert "✓ succeeded It became a run. Run" in answers(page.text)
    assert str(found["run_id"]) in answers(page.text)


async def test_why_says_what_the_run_of_a_fire_waits_for(
    full_site: Site, full_database: str
) -> None:
    (found,) = await fetch(
        full_database,
        """WITH fire AS (
             SELECT o.schedule_id, o.fire_at FROM pgcron.occurrence o
             JOIN pgcron.schedule s ON s.id = o.schedule_id
             WHERE s.name = 'etl/orders' AND o.decision = 'run' LIMIT 1),
           made AS (
             INSERT INTO pgcron.run (handler, schedule_id, schedule, scheduled_for, due_at, origin)
             SELECT 'py:nobody', f.schedule_id, 'etl/orders', f.fire_at, f.fire_at, 'schedule'
             FROM fire f RETURNING id)
           UPDATE pgcron.occurrence o SET run_id = made.id FROM fire f, made
           WHERE o.schedule_id = f.schedule_id AND o.fire_at = f.fire_at RETURNING o.fire_at""",
    )

    page = await full_site.get(ledger_of("etl/orders", f"at={quote(found['fire_at'].isoformat())}"))

    offers = "no live node offers &#39;py:nobody&#39; for queue"
    assert f"It became a run, which waits: {offers}" in page.text


async def test_why_tells_the_reason_and_note_of_a_missed_fire(
    full_site: Site, full_database: str
) -> None:
    await fetch(
        full_database,
        """INSERT INTO pgcron.missed (schedule_id, first_at, last_at, reason, note)
           SELECT id, '2026-03-01 00:00Z', '2026-03-02 00:00Z', 'paused', 'ana: moving <b>'
           FROM pgcron.schedule WHERE name = 'nightly-backup'""",
    )

    page = await full_site.get(ledger_of("nightly-backup", "at=2026-03-01+02:30"))

    assert (
        "∅ missed The schedule was paused: ana: moving &lt;b&gt;."
        " 2026-03-01 02:30:00 Europe/Berlin = 2026-03-01 01:30:00 UTC" in answers(page.text)
    )


async def test_why_offers_the_fires_about_an_instant_that_is_none(
    full_site: Site, full_database: str
) -> None:
    await make_old(full_database)

    page = await full_site.get(ledger_of("nightly-backup", "at=2026-03-01+05:00"))

    assert "∅ no fire The schedule" in answers(page.text)
    fires = "it fires before at 2026-03-01 02:30:00 UTC+1 and after at 2026-03-02 02:30:00 UTC+1"
    assert fires in answers(page.text)


async def test_why_claims_nothing_that_nobody_can_know(full_site: Site, full_database: str) -> None:
    before = await full_site.get(ledger_of("nightly-backup", "at=2018-03-01+02:30"))
    await make_old(full_database)
    forgotten = await full_site.get(ledger_of("nightly-backup", "at=2020-03-02+02:30"))

    assert "The schedule did not exist yet." in answers(before.text)
    assert "What was decided so long ago is not kept" in answers(forgotten.text)


async def test_why_knows_that_the_future_is_not_decided_yet(read_site: Site) -> None:
    page = await read_site.get(ledger_of("nightly-backup", "at=2090-03-01+02:30"))
    never = await read_site.get(ledger_of("nightly-backup", "at=2090-03-01+02:31"))

    assert "◷ not yet Fires are decided up to" in answers(page.text)
    assert "no fire" in answers(never.text)


async def test_a_wall_time_that_was_twice_is_answered_twice(read_site: Site) -> None:
    page = await read_site.get(ledger_of("nightly-backup", "at=2026-10-25+02:30"))

    assert "this is the first, at UTC+2" in answers(page.text)
    assert "this is the second, at UTC+1" in answers(page.text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("02:30", ["2026-11-21T01:30:00+00:00"]),
        # Later than now by that clock: yesterday's.
        ("23:30", ["2026-11-20T22:30:00+00:00"]),
        ("yesterday 02:30", ["2026-11-20T01:30:00+00:00"]),
        ("2026-11-21", ["2026-11-20T23:00:00+00:00"]),
        ("2h", ["2026-11-21T10:00:00+00:00"]),
        ("2026-11-21 02:30", ["2026-11-21T01:30:00+00:00"]),
        ("2026-07-01T02:30:15", ["2026-07-01T00:30:15+00:00"]),
        ("2026-11-21T02:30:00Z", ["2026-11-21T02:30:00+00:00"]),
        ("2026-11-21T02:30-05:00", ["2026-11-21T07:30:00+00:00"]),
        ("2026-10-25 02:30", ["2026-10-25T00:30:00+00:00", "2026-10-25T01:30:00+00:00"]),
        # The clock went from 02:00 to 03:00.
        ("2026-03-29 02:30", ["2026-03-29T01:30:00+00:00"]),
    ],
)
def test_a_wall_time_means_its_instants(text: str, expected: list[str]) -> None:
    assert [meant.instant.isoformat() for meant in instants(text, BERLIN, NOON)] == expected


def test_a_wall_time_that_never_was_says_so() -> None:
    (meant,) = instants("2026-03-29 02:30", BERLIN, NOON)

    assert meant.note is not None
    assert "2026-03-29 02:30:00 never was in Europe/Berlin" in meant.note
    assert "it was 03:30:00" in meant.note


@pytest.mark.parametrize(
    "text", ["yesterday", "25:00", "0001-01-01 00:00", "9999-12-31 23:59", "12", ":"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        instants(text, BERLIN, NOON)


def test_reasons_are_words() -> None:
    meaning = "The schedule was paused."
    assert reason_words("catchup_none") == "catchup none"
    assert reason_words("paused", meaning, "ana: x_y") == "The schedule was paused: ana: x_y"
    assert reason_words("paused: ana: x_y", meaning) == "The schedule was paused: ana: x_y"
    assert reason_words("cancelled by ana: why_not") == "cancelled by ana: why_not"
    assert reason_words(None) is None


@pytest.mark.parametrize("name", [HOSTILE_NAME, RIGHT_TO_LEFT_NAME, EMOJI_NAME, LONG_NAME])
async def test_the_ledger_of_any_name_works_and_harms_nothing(read_site: Site, name: str) -> None:
    page = await read_site.get(ledger_of(name, "at=02:30"))

    assert page.status_code == 200
    assert "<script>alert" not in page.text
    assert "\u202e" not in page.text


@pytest.mark.parametrize(
    ("path", "status", "hint"),
    [
        (ledger_of("etl/order"), 404, "/schedules/etl%2Forders/occurrences"),
        (ledger_of("etl/orders", "decision=mised"), 400, "Did you mean &#39;missed&#39;?"),
        (ledger_of("etl/orders", "before=yesterday"), 400, "is not a page of the ledger"),
        (ledger_of("etl/orders", "at=yesterday"), 400, "is not a time"),
        (ledger_of("etl/orders", "at=%00"), 400, "NUL character"),
        (ledger_of("misread"), 200, "No fire has been decided yet"),
    ],
)
async def test_bad_input_is_a_page_that_says_so(
    read_site: Site, path: str, status: int, hint: str
) -> None:
    page = await read_site.get(path)

    assert page.status_code == status
    assert hint in page.text
