"""Specs and policies in English."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgcron_ha.errors import InvalidSpec
from tests.product.spec import SENTENCES_MOST_CHARACTERS as MOST_CHARACTERS
from tests.product.spec import DstPolicy, parse_spec, policy_words, read_spec, sentence

BERLIN = "Europe/Berlin"
RRULE = "rrule FREQ="

# Each was read by a person.
WORDS = {
    "* * * * *": "Every minute",
    "every 2nd of 0 9 * * mon": "Each 2nd time of: at 09:00 on Monday",
    "every 13th of @hourly from 2026-01-05T09:00": (
        "Each 13th time counted from 2026-01-05 09:00 of: every hour on the hour"
    ),
    "*/10 * * * *": "Every 10 minutes",
    "*/7 * * * *": "Every 7 minutes (0, 7, … 56)",
    "0 * * * *": "Every hour on the hour",
    "15 * * * *": "At minute 15 of every hour",
    "3,17,40 * * * *": "At minutes 3, 17 and 40 of every hour",
    "0 */2 * * *": "Every 2 hours from 00:00 on",
    "15 */6 * * 6": "At 00:15, 06:15, 12:15 and 18:15 on Saturday",
    "*/15 9-17 * * mon-fri": "Every 15 minutes from 09:00 to 17:59 on Monday to Friday",
    "*/5 8-9,12 * * sat,sun": (
        "Every 5 minutes from 08:00 to 09:59 and from 12:00 to 12:59 on Saturday and Sunday"
    ),
    "0 3 * * *": "At 03:00 every day",
    "0 9,12,15 1,15,L * *": "At 09:00, 12:00 and 15:00 on the 1st, the 15th and the last day of the"
    " month",
    "0 0 1 1 *": "At 00:00 on the 1st of January",
    "0 0 * 6 *": "At 00:00 every day in June",
    "0 0 13 * fri": "At 00:00 on the 13th of the month or on Friday",
    "0 0 */2 * 1-5": (
        "At 00:00 on every 2nd day of the month (1, 3, … 31) if that is Monday to Friday"
    ),
    "0 22 * 1,7 5#2,friL": "At 22:00 on the second Friday of the month and the last Friday of the"
    " month in January and July",
    "0 0 LW * *": "At 00:00 on the last working day (Monday to Friday) of the month",
    "0 0 L-3 * *": "At 00:00 on the day 3 days before the last of the month",
    "0 9 * * 5,6,0": "At 09:00 on Friday to Sunday",
    "15 30 4 * * *": "At 04:30:15 every day",
    "*/10 * * * * *": "Every 10 seconds",
    "5 * * * * *": "At second 5 of every minute",
    "at 2026-12-24T18:00": "Once at 2026-12-24 18:00",
    f"{RRULE}MONTHLY;BYDAY=-1FR;BYHOUR=9": "Each month on the last Friday at 09:00",
    f"{RRULE}WEEKLY;INTERVAL=2;BYDAY=MO,WE from 2026-01-05T09:00": (
        "Every 2 weeks (counted from 2026-01-05) on Monday and Wednesday at 09:00"
    ),
    f"{RRULE}YEARLY;BYMONTH=5;BYDAY=2SU;BYHOUR=8;COUNT=5 from 2026-01-01T09:00": (
        "Each year on the second Sunday of May at 08:00, 5 times from 2026-01-01 09:00 on"
    ),
    f"{RRULE}MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=17": (
        "Each month on Monday to Friday at 17:00 (of these only the last of the month)"
    ),
    f"{RRULE}YEARLY;BYDAY=20MO": "Each year on the 20th Monday of the year at 00:00",
    f"{RRULE}DAILY;UNTIL=20271231 from 2026-05-05T10:15": (
        "Each day at 10:15, until the end of 2027-12-31"
    ),
}


@pytest.mark.parametrize("text", WORDS)
def test_a_line_is_said_in_english(text: str) -> None:
    assert sentence(parse_spec(text, BERLIN)) == f"{WORDS[text]}, in {BERLIN}."


def test_an_interval_counts_real_time_and_has_no_zone() -> None:
    assert sentence(parse_spec("every 90m", BERLIN)) == "Every 1h30m."
    text = "every 90m from 2026-01-01T00:10Z"
    assert sentence(parse_spec(text, BERLIN)) == "Every 1h30m counted from 2026-01-01 00:10 UTC."


def test_unions_exclusions_and_bounds_are_one_sentence() -> None:
    text = """@daily
        every 2h
        from 2026-02-02T00:00
        until 2029-01-01T00:00
        not * * * * sat,sun
        not 2026-12-24..2027-01-01,2027-05-01
        not * 12 * * *
        not */5 12 * * *
        not 0 0 12 * * *
        not at 2026-05-05T00:00"""
    assert sentence(parse_spec(text, BERLIN)) == (
        "At 00:00 every day, and every 2h, in Europe/Berlin, from 2026-02-02 00:00 on, until"
        " 2029-01-01 00:00, but not on Saturday and Sunday, nor from 12:00 to 12:59 on any day,"
        " nor in the minutes that are every 5 minutes from 12:00 to 12:59, nor at 12:00 on any day,"
        " nor on 2026-12-24 to 2027-01-01 and 2027-05-01, nor at 2026-05-05 00:00."
    )


def test_policies_are_clauses() -> None:
    policies: dict[str, Any] = {
        "overlap": "skip",
        "catchup": "latest",
        "catchup_window": timedelta(hours=1),
        "start_deadline": timedelta(minutes=10),
        "enabled": False,
        "timeout": 5400.0,
        "max_attempts": 3,
        "jitter": None,
    }
    assert sentence(parse_spec("0 3 * * *", BERLIN, DstPolicy.SKIP), policies) == (
        "At 03:00 every day, in Europe/Berlin; wall times that the clock skips are lost, repeated"
        " ones fire once; it is paused; if the last run is not over, the fire is skipped; of fires"
        " late by up to 1h only the newest runs; a run that has not begun 10m after its fire"
        " expires."
    )


@pytest.mark.parametrize(
    ("policies", "clauses"),
    [
        ({"overlap": "allow"}, ["runs may overlap"]),
        ({"catchup": "none", "catchup_window": 60}, ["late fires don't run"]),
        ({"catchup": "all", "catchup_window": 60}, ["all fires late by up to 1m run"]),
        ({"catchup": "latest 3"}, ["of late fires the newest 3 run"]),
        ({"after_pause": "drop"}, []),
        ({"after_pause": "catchup"}, ["what fires in a pause is late"]),
        ({"jitter": timedelta(minutes=5)}, ["each fire is due up to 5m later, all alike"]),
        ({"max_runs": 3}, ["it ends after 3 runs"]),
        ({"depends_on_previous": True}, ["a fire does not run while the one before it has failed"]),
        ({"overlap": "skip", "max_running": 3}, ["if 3 runs are not over, the fire is skipped"]),
        (
            {"overlap": "allow", "max_running": 3},
            ["up to 3 of its runs overlap, and others wait, however many"],
        ),
        ({"overlap": "allow", "max_running": 1}, ["its runs wait for one another, however many"]),
        (
            {"overlap": "queue", "max_running": 2, "max_queued": 1},
            [
                "if 2 runs are not over, the fire waits for the end of one (at most 1 does; the "
                "newest is dropped)"
            ],
        ),
        (
            {"overlap": "queue", "max_queued": 2, "queue_drops": "oldest"},
            [
                "if the last run is not over, the fire waits for its end (at most 2 do; the oldest"
                " is dropped)"
            ],
        ),
        ({"start_deadline": 0.5}, ["a run that has not begun 500ms after its fire expires"]),
        # How its runs are executed, whose it is and what it is about is no matter of when.
        ({"timeout": 60, "delivery": "at_most_once", "weight": 2, "owner": "a"}, []),
    ],
)
def test_a_policy_has_its_words(policies: dict[str, Any], clauses: list[str]) -> None:
    assert policy_words(policies) == clauses


_numbers = st.integers(0, 59)
_field = st.one_of(
    st.just("*"),
    st.integers(1, 7).map(lambda step: f"*/{step}"),
    st.lists(st.integers(1, 6), min_size=1, max_size=4).map(lambda n: ",".join(map(str, n))),
    st.just("1-5"),
)
_day = st.one_of(_field, st.sampled_from(["L", "LW", "L-3", "15W", "1,L", "31"]))
_weekday = st.one_of(_field, st.sampled_from(["5#2", "friL", "0", "7", "1#5,5L"]))
_minute = st.one_of(
    _field, st.lists(_numbers, min_size=1, max_size=40).map(lambda n: ",".join(map(str, n)))
)
_cron = st.tuples(_minute, _field, _day, _field, _weekday).map(" ".join)
_cron6 = st.tuples(_minute, _minute, _field, _day, _field, _weekday).map(" ".join)
_parts = st.lists(
    st.sampled_from(
        [
            "INTERVAL=3", "BYMONTH=2,5", "BYDAY=MO,SU",
            "BYDAY=-1FR,2MO", "BYMONTHDAY=-2,1,15", "BYHOUR=1,2,3,4,5,6,7,8", "BYMINUTE=3,9",
            "BYSECOND=1", "BYSETPOS=-1,1", "COUNT=3", "UNTIL=20301231T000000Z", "WKST=SU",
        ]
    ),
    unique_by=lambda part: part.split("=")[0],
    max_size=5,
)  # fmt: skip
_frequency = st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY"])
_recurrence = st.tuples(_frequency, _parts).map(
    lambda rule: ";".join([f"rrule FREQ={rule[0]}", *rule[1]]) + " from 2026-01-01T09:30:15"
)
_other = st.sampled_from(
    [
        "every 90m", "every 1d from 2026-01-01T00:00:01Z", "at 2026-12-24T18:00:05", "@weekly",
        "not 2026-12-24..2027-01-01,2027-05-01", "not * * * * sat", "not */5 1-3 * * *",
        "not * * * * * 1", "not at 2026-12-24T18:00", "from 2020-01-01T00:00",
        "until 2040-01-01T00:00Z",
    ]
)  # fmt: skip
_specs = st.lists(st.one_of(_cron, _cron6, _recurrence, _other), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(_specs.map("\n".join), st.sampled_from(list(DstPolicy)))
def test_every_valid_spec_has_a_sentence_that_is_always_the_same(text: str, dst: DstPolicy) -> None:
    try:
        spec = parse_spec(text, BERLIN, dst)
    except InvalidSpec:
        return
    said = sentence(spec)
    assert said[0] == said[0].upper()
    assert 5 < len(said) <= MOST_CHARACTERS
    assert not ({"\n", "  "} & {said[i : i + n] for n in (1, 2) for i in range(len(said))})
    assert sentence(read_spec.__wrapped__(spec.canonical, BERLIN, dst, None, ())) == said
