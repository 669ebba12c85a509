"""The next fires with what the clock does to them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.product.spec import DstPolicy, Preview, parse_spec, preview

BERLIN = "Europe/Berlin"
GAP = "does not exist on 2027-03-28 in Europe/Berlin"
FOLD = "occurs twice on 2026-10-25 in Europe/Berlin"
BEFORE_GAP = "2027-03-27T12:00"
BEFORE_FOLD = "2026-10-24T23:30"


def ahead(text: str, after: str, count: int = 4, dst: str = "vixie") -> Preview:
    moment = datetime.fromisoformat(after).replace(tzinfo=UTC)
    return preview(parse_spec(text, BERLIN, DstPolicy(dst)), moment, count)


def test_a_fire_has_local_time_offset_and_utc() -> None:
    shown = ahead("0 9 * * mon-fri", "2026-03-27T12:00", 2)
    assert [(fire.local_text, fire.utc_text, fire.note) for fire in shown.fires] == [
        ("Mon 2026-03-30 09:00:00 +0200", "2026-03-30T07:00:00Z", None),
        ("Tue 2026-03-31 09:00:00 +0200", "2026-03-31T07:00:00Z", None),
    ]
    assert (shown.timezone, shown.is_over) == (BERLIN, False)
    assert shown.sentence == "At 09:00 on Monday to Friday, in Europe/Berlin."


@pytest.mark.parametrize(
    ("text", "after", "dst", "notes"),
    [
        ("30 2 * * *", BEFORE_GAP, "vixie", [f"02:30 {GAP}: fires at 03:00", None]),
        ("30 2 * * *", BEFORE_GAP, "skip", [f"02:30 {GAP}: no fire", None]),
        ("30 2 * * *", BEFORE_GAP, "robfig", [f"02:30 {GAP}: no fire", None]),
        ("*/30 * * * *", "2027-03-28T00:00", "vixie", [None, f"02:00 {GAP}: no fire", None]),
        ("30 2 28 3 *", "2026-03-29T12:00", "skip", [f"02:30 {GAP}: no fire", None]),
        ("rrule FREQ=DAILY;BYHOUR=2", BEFORE_GAP, "vixie", [f"02:00 {GAP}: fires at 03:00", None]),
        ("every 1h", "2027-03-28T00:30", "vixie", [None, None]),
        ("30 2 * * *", BEFORE_FOLD, "vixie", [f"02:30 {FOLD}: first pass, the second is left out"]),
        (
            "30 2 * * *",
            BEFORE_FOLD,
            "robfig",
            [f"02:30 {FOLD}: first pass", f"02:30 {FOLD}: second pass", None],
        ),
        (
            "every 1h",
            BEFORE_FOLD,
            "vixie",
            [f"02:00 {FOLD}: first pass", f"02:00 {FOLD}: second pass", None],
        ),
        ("every 1d from 2026-01-01T00:15Z", BEFORE_FOLD, "vixie", [f"02:15 {FOLD}: first pass"]),
    ],
)
def test_gaps_and_folds_are_marked(
    text: str, after: str, dst: str, notes: list[str | None]
) -> None:
    fires = ahead(text, after, len(notes), dst).fires
    assert [fire.note for fire in fires] == notes


def test_the_end_of_all_fires_is_known() -> None:
    over = ahead("at 2026-12-24T18:00", "2026-01-01T00:00", 1)
    assert ([fire.utc_text for fire in over.fires], over.is_over) == (
        ["2026-12-24T17:00:00Z"],
        True,
    )
    assert ahead("at 2026-12-24T18:00", "2027-01-01T00:00").fires == ()


def test_fires_are_those_of_the_spec_and_only_near_a_change_they_are_marked() -> None:
    for text in ("*/20 1-3 * * *", "30 2 * * *\nevery 7h\nnot 2026-10-26", "0 0 2 * * *"):
        spec = parse_spec(text, BERLIN)
        moment = datetime(2026, 10, 20, tzinfo=UTC)
        shown = preview(spec, moment, 100)
        end = shown.fires[-1].fire_at
        assert [fire.fire_at for fire in shown.fires] == spec.between(moment, end, 1000)
        marks = {fire.local.date().isoformat() for fire in shown.fires if fire.note}
        assert marks == {"2026-10-25"}
        assert all(fire.local.astimezone(UTC) == fire.fire_at for fire in shown.fires)
        assert all(fire.local.utcoffset() in (timedelta(hours=1), timedelta(hours=2))
                   for fire in shown.fires)  # fmt: skip
