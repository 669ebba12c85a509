from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.chaos.failpoints import clock_ahead_by
from tests.product.web import NEXT_FIRES, ROUTES, future_fire_lines, schedule_sentence, verbs
from tests.sessions import own_session
from tests.web.conftest import Site


def schedule(spec: str, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"spec": spec, "timezone": "Europe/Berlin", "dst": "vixie"}
    row |= {"status": "valid", "calendars": None}
    row |= {"paused_by": None, "paused_until": None, "paused_note": None}
    row["uuid"] = "8f14e45f-ceea-467f-9575-9dc4a1c9e2b1"
    return row | {"enabled": True, "error": None} | changes


def test_fires_are_told_in_the_schedules_zone_and_utc() -> None:
    lines, note = future_fire_lines(
        schedule("30 6 * * mon-fri"), datetime(2026, 11, 20, 12, tzinfo=UTC)
    )

    assert len(lines) == NEXT_FIRES
    first, change = lines[0]
    assert first.local_text == "Mon 2026-11-23 06:30:00 +0100"
    assert first.utc_text == "2026-11-23T05:30:00Z"
    assert first.note is None
    assert change is None
    assert note is None


@pytest.mark.parametrize(
    ("now", "local", "sentence"),
    [
        (datetime(2027, 3, 27, 12, tzinfo=UTC), "Sun 2027-03-28 03:00:00 +0200", "fires at 03:00"),
        (
            datetime(2026, 10, 24, 12, tzinfo=UTC),
            "Sun 2026-10-25 02:30:00 +0200",
            "second is left out",
        ),
    ],
)
def test_gaps_and_folds_of_the_clock_are_marked(now: datetime, local: str, sentence: str) -> None:
    lines, _ = future_fire_lines(schedule("30 2 * * *"), now)

    first, *others = (fire for fire, _ in lines)
    assert first.local_text == local
    assert first.note is not None
    assert sentence in first.note
    assert [fire.note for fire in others] == [None] * (NEXT_FIRES - 1)


def test_a_paused_an_invalid_and_an_ended_schedule_say_so() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    paused, sentence = future_fire_lines(schedule("0 * * * *", enabled=False), now)
    invalid = future_fire_lines(schedule("0 * * * *", status="invalid", error="no zone"), now)
    unreadable = future_fire_lines(schedule("nonsense"), now)

    assert paused
    assert sentence is not None
    assert "paused" in sentence
    assert invalid == ((), "no zone")
    assert unreadable[0] == ()
    assert unreadable[1]


def test_a_schedule_is_told_in_english() -> None:
    row = schedule("30 6 * * mon-fri", overlap="skip", catchup="none", timeout=600.0)

    assert schedule_sentence(row) == (
        "At 06:30 on Monday to Friday, in Europe/Berlin; if the last run is not over, the fire is"
        " skipped; late fires don't run."
    )
    assert schedule_sentence(schedule("nonsense")) is None


async def test_a_page_shows_a_fire_by_the_schedules_clock_and_in_utc(
    site: Site, database: str
) -> None:
    connection = await own_session(database)
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler, timezone)"
        " VALUES ('once', 'at 2090-01-02T06:30', 'py:x', 'Europe/Berlin')"
    )
    await connection.close()

    page = (await site.get("/schedules/once")).text

    assert '<span class="muted">Mon</span> 2090-01-02 06:30:00 (+1)' in page
    assert "2090-01-02 05:30:00 UTC" in page


async def test_a_change_of_a_fire_is_taken_back_with_the_right_that_it_needed(
    site: Site, database: str
) -> None:
    needs = {route.name: route.permission for route in ROUTES}
    assert needs["restore_occurrence"] == needs["edit_occurrence"] == needs["edit_schedule"]
    connection = await own_session(database)
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('daily', '0 0 * * *', 'py:x')"
    )
    page, fire = "/schedules/daily/occurrences", {"fire_time": "2090-01-01T00:00Z"}
    await site.post(f"{page}/move", **fire, due_at="2090-01-01T05:00Z")
    await site.post(f"{page}/edit", **fire, args='{"day": 1}')
    changed = "SELECT args FROM pgcron.occurrence_override"
    assert await connection.fetchval(changed) == '{"day": 1}'

    restored = await site.post(f"{page}/restore", **fire)
    again = await site.post(f"{page}/restore", **fire)

    assert (restored.status_code, again.status_code) == (303, 404)
    assert await connection.fetchrow(changed) is None
    await connection.close()


async def test_a_time_from_now_is_by_the_clock_of_the_database(
    site: Site, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await own_session(database)
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('daily', '0 0 * * *', 'py:x')"
    )
    monkeypatch.setattr(verbs, "datetime", clock_ahead_by(7200))

    fire = f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%dT00:00Z}"
    moved = await site.post("/schedules/daily/occurrences/move", fire_time=fire, due_at="2h")

    assert moved.status_code == 303
    due_in = "SELECT due_at - now() FROM pgcron.occurrence_override"
    assert await connection.fetchval(due_in) <= timedelta(hours=2)
    await connection.close()


async def test_a_schedule_on_assets_names_those_that_it_waits_for(
    site: Site, database: str
) -> None:
    connection = await own_session(database)
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler)"
        " VALUES ('report', 'on asset sales and stock', 'py:x');"
        " SELECT pgcron.update_asset('sales'); SELECT pgcron.settle_assets(9)"
    )
    page = (await site.get("/schedules/report")).text
    await connection.close()

    assert "When assets sales and stock were updated" in page
    assert "It waits for an update of stock." in page
    assert "never fires again" not in page
