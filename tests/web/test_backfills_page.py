from __future__ import annotations

import pytest

from tests.web.conftest import Site


async def test_backfills_are_listed_with_how_far_they_are(read_site: Site) -> None:
    page = await read_site.get("/backfills")

    assert page.status_code == 200
    assert "</span>paused</span>" in page.text
    assert "etl/orders" in page.text
    assert "No backfills" in (await read_site.get("/backfills?state=done")).text
    assert "No backfills" in (await read_site.get("/backfills?schedule=weekly-report")).text
    assert (await read_site.get("/backfills?schedule=nobody")).status_code == 404
    assert (await read_site.get("/backfills?state=doen")).status_code == 400


async def test_one_backfill_shows_progress_settings_and_failed_runs(read_site: Site) -> None:
    page = await read_site.get("/backfills/1")

    assert page.status_code == 200
    assert 'max="96" value="51"' in page.text
    for words in ("run again if they did not succeed", "the disk was full", "ada", "dead"):
        assert words in page.text, words
    for wrong in ("99", "x", "0", "9" * 40, "1".zfill(20) + "9" * 20):
        assert (await read_site.get(f"/backfills/{wrong}")).status_code == 404, wrong


async def test_one_is_asked_for_on_the_page_of_its_schedule(full_site: Site) -> None:
    asked = {"since": "2026-02-02 00:00", "until": "2026-02-10", "note": "moved"}
    answer = await full_site.post("/schedules/weekly-report/backfill", **asked)
    page = await full_site.get(answer.headers["location"])

    assert answer.status_code == 303
    assert "Started: nodes make its runs" in page.text
    assert "2026-02-02 05:00" in page.text  # midnight in New York
    assert "moved" in page.text
    twice = await full_site.post("/schedules/weekly-report/backfill", **asked)
    assert twice.status_code == 409


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "is not a time"),
        ({"since": "2026-01-01", "parallelism": "many"}, "out of range"),
        ({"since": "2026-01-01", "direction": "up"}, "up"),
        ({"since": "2999-01-01"}, "a backfill from"),
        ({"since": "1999-01-01"}, "ten years"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    full_site: Site, given: dict[str, str], words: str
) -> None:
    answer = await full_site.post("/schedules/weekly-report/backfill", **given)

    assert answer.status_code == 400
    assert words in answer.text
