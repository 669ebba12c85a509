from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from pgcron_ha.assets import STATIC
from pgcron_ha.harmless import left_out
from tests.product.model import formats
from tests.product.web import PLOTS_WIDTH as WIDTH
from tests.product.web import TRACK_HEIGHT, distance, spark, timeline
from tests.web.seed import ANSI

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def spaced(text: str) -> str:
    return text.replace("\N{NARROW NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0 ms"),
        (0.23, "230 ms"),
        (0.9996, "1.0 s"),
        (4.2, "4.2 s"),
        (9.96, "10 s"),
        (64, "1 m 04 s"),
        (59.7, "1 m"),
        (3840, "1 h 04 m"),
        (86400 * 3 + 3600 * 4, "3 d 04 h"),
    ],
)
def test_durations_are_worded_with_their_units(seconds: float | None, text: str) -> None:
    assert spaced(formats.duration(seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "now"),
        (-8, "8.0 s ago"),
        (-379, "6 m ago"),
        (-5999, "1 h 39 m ago"),
        (250, "in 4 m 10 s"),
        (-90000, "2026-11-20 12:00 UTC+1"),
        (90000 * 200, "2027-06-17 22:00 UTC+2"),
    ],
)
def test_instants_are_relative_within_a_day(seconds: float, text: str) -> None:
    assert spaced(formats.relative(NOW + timedelta(seconds=seconds), NOW, BERLIN)) == text
    assert formats.relative(NOW - timedelta(days=2), NOW, ZoneInfo("UTC")).endswith(":00 UTC")
    assert formats.local(NOW, BERLIN) == "2026-11-21 13:00:00 UTC+1"


def test_the_exact_time_is_local_and_utc() -> None:
    assert (
        formats.exact(NOW, BERLIN)
        == "2026-11-21 13:00:00 Europe/Berlin (UTC+1) · 2026-11-21 12:00:00 UTC"
    )
    assert formats.exact(NOW, ZoneInfo("UTC")) == "2026-11-21 12:00:00 UTC"


def test_text_from_outside_is_made_harmless() -> None:
    assert left_out(ANSI) == "red link cleared override"
    assert left_out("a\x00b\u2066c\u061cd\ue000") == "abcd"
    assert left_out("👩\u200d👩 ünï\tx\n") == "👩\u200d👩 ünï\tx\n"
    assert formats.plain("  two\n lines ") == "two lines"
    # A hostile text must not cost more than its length.
    assert left_out("\x1b]" * 20_000) == ""


def test_a_key_has_a_bounded_number_of_marks() -> None:
    runs = [
        {
            "id": number,
            "outcome": "dead" if number == 500 else "succeeded",
            "started_at": NOW - timedelta(seconds=number * 10),
            "finished_at": NOW - timedelta(seconds=number * 10 - 5),
        }
        for number in range(1, 5000)
    ]
    concurrency_key = {
        "name": "busy",
        "health": "ok",
        "runs": runs,
        "fires": [NOW + timedelta(hours=1)],
    }

    plot = timeline(
        [concurrency_key], NOW - timedelta(hours=16), NOW, NOW + timedelta(hours=8), ZoneInfo("UTC")
    )

    (drawn,) = plot.tracks
    assert len(drawn.marks) <= WIDTH / 5 + 1
    assert sum(mark.count for mark in drawn.marks) == len(runs)
    assert [mark.state for mark in drawn.marks].count("dead") == 1
    assert plot.now_x == pytest.approx(WIDTH * 2 / 3, abs=0.1)
    assert all(0 <= mark.x <= WIDTH for mark in drawn.marks)
    assert plot.height > TRACK_HEIGHT
    assert distance(NOW, NOW + timedelta(seconds=WIDTH)) == timedelta(seconds=5)


def test_a_failure_has_a_shape_of_its_own_in_a_trend() -> None:
    outcomes, durations = ["dead", "succeeded", "skipped"], [1.0, 10.0, None]
    runs = {"ids": [1, 2, 3], "outcomes": outcomes, "durations": durations, "finished": [NOW] * 3}
    bars = spark(runs, BERLIN)

    assert [bar.title.split()[1] for bar in bars] == ["3", "2", "1"]
    assert bars[-1].height == max(bar.height for bar in bars)
    assert bars[-1].tone == "fail"


def test_every_text_colour_has_its_contrast_on_every_ground() -> None:
    css = (STATIC / "app.css").read_text()
    tokens = {
        name: pair
        for name, *pair in re.findall(
            r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", css
        )
    }
    for theme in (0, 1):
        for ground in ("bg", "surface"):
            for text in ("text", "muted", "link", "ok", "fail", "late", "run", "retry"):
                found = contrast(tokens[text][theme], tokens[ground][theme])
                assert found >= 4.4, (text, ground, theme, found)
            for fill in ("ok-fill", "late-fill", "idle"):
                assert contrast(tokens[fill][theme], tokens[ground][theme]) >= 3, fill


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2.2."""
    lights = sorted((luminance(one), luminance(other)), reverse=True)
    return (lights[0] + 0.05) / (lights[1] + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
