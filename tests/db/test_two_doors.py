"""What SQL accepts as a spec is what Python accepts, but for one thing that SQL can't see."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.model.spec import parse_spec
from pgcron_ha.model.spread import EXAMPLE_SEED
from tests.servers import ThrowAwayServer

GOOD = """
* * * * *|0 3 * * *|*/15 * * * *|0 9-17 * * mon-fri|0 9 1,15,L * *|0 9 1 jan,jul *|9/15 * * * *
59 23 31 12 7|00 03 * * *|0 0 ? * *|0 0 * * ?|0 0 * * 5-0|0 0 * * fri-sun|0 0 * * 0-7|0 0 * * 7/2
0 0 * * 7-7|0 0 * * mon#2|0 0 * * 5L|0 0 * * L5|0 0 * * friL|0 0 LW * *|0 0 L-3 * *|0 0 L-03 * *
0 0 15W * *|0 0 05W * *|0 0 1W,L * *|0 0 29 2 *|0 0 31 1-3 *|0 0 30 2 mon|0 0 31 2,3 *
*/10 * * * * *|0 0 0 1 1 *|0 */2 * * * mon#1|@daily|@DAILY|@midnight|@hourly|@weekly|@monthly
@yearly|@annually|every 90m|every 1h30m|every 45s|EVERY 2d|every 1d2h3m4s|every 1s|every 36525d
every 90m from 2026-01-01T00:10Z|every 1h FROM 2026-01-01t00:10:05z
every 1h from 1900-01-01T00:00Z|every 1h from 2026-01-01T00:10+01:00
every 1h from 2024-02-29T23:59:59-23:59|every 000000090m|at 2026-12-24T18:00
AT 2026-12-24t18:00:05z|at 2026-12-24T18:00+01:00|rrule FREQ=DAILY
rrule freq=monthly;byday=-1fr,2MO;BYHOUR=9 from 2026-01-01T09:00
rrule FREQ=WEEKLY;INTERVAL=2;WKST=SU|rrule FREQ=YEARLY;BYWEEKNO=1,-1;BYDAY=MO
rrule FREQ=YEARLY;BYYEARDAY=-1|rrule FREQ=HOURLY;BYMINUTE=0,59
rrule FREQ=DAILY;COUNT=5 FROM 2026-01-01T09:00Z|rrule FREQ=DAILY;UNTIL=20271231T235959Z
rrule FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1;BYMONTH=1,12
@hourly~|@DAILY~|@weekly~|@monthly~|@yearly~|every 2nd of 0 9 * * mon
every 3rd of @daily~ from 2026-01-05T09:00|EVERY 10000th OF */10 * * * * * FROM 2026-01-05t09:00z
every 2th of @weekly|rrule FREQ=DAILY;BYMONTHDAY=+1,-31;BYSECOND=5
0 0 1-31/2 * *|0 0 * jan-dec *|0-59/7,3 * * * *
0 0 1 JAN-DEC *|0,0,0 0 * * *|*/9999 * * * *
"""
BAD = """
61 * * * *|* 24 * * *|* * 0 * *|* * 32 * *|* * * 0 *|* * * 13 *|* * * * 8|60 * * * * *|* * * *
* * * * * * *|a * * * *|* * * * funday|*/0 * * * *|*/-1 * * * *|*/12345 * * * *|5-1 * * * *
1-2-3 * * * *|*-5 * * * *|5- * * * *|-5 * * * *|, * * * *|1,,2 * * * *|1, * * * *|? * * * *
* ? * * *|* * ?/2 * *|* * ?,1 * *|* * * ? *|0 0 L-0 * *|0 0 L-31 * *|0 0 0W * *|0 0 32W * *
0 0 W * *|0 0 WL * *|0 0 * * mon#0|0 0 * * mon#6|0 0 * * 8#1|0 0 * * 05#2|0 0 * * 05L|0 0 * * L05
0 0 * * Lfri|0 0 * * sun1|0 0 * * 1sun|0 0 1 jan1 *|0 0 1 1jan *|0 0 1 janl *|0 0 * * monday
0 0 30 2 *|0 0 31 4,6,9,11 *|0 0 30,31 feb *|@reboot|@dayly|@|H * * * *|~ * * * *|R * * * *|every
every 0s|every -5m|every 5|every 5x|every 5m5m|every 5m1h|every 1.5h|every 5 m|every 36526d
every 999999999d|every 1h since 2026-01-01T00:10Z|every 1h from|every 1h from 2026-01-01
every 1h from 2026-01-01T00:10|every 1h from 2026-01-01 00:10Z|every 1h from 2026-13-01T00:10Z
every 1h from 2026-02-30T00:10Z|every 1h from 2026-01-01T25:10Z|every 1h from 2026-01-01T00:60Z
every 1h from 2026-01-01T00:10+1:00|every 1h from 2026-01-01T00:10+0100|every1h
every 1h from 2026-01-01T08:00-18:68|every 1h from 2026-01-01T08:00+24:00
every 1h from 0000-01-01T00:10Z|every 1h from 1900-01-01T00:00+01:00
every 1h from 9999-01-01T00:00Z|every 1h from 2026-01-01T00:10Z until|not 0 3 * * *|not|at|at noon
at 2026-12-24|at 2026-02-30T00:00|at 2026-12-24T18:00 19:00|at|not 2026-12-24
from 2026-01-01T00:00|until 2026-01-01T00:00|rrule|rrule FREQ=SECONDLY|rrule INTERVAL=2
rrule FREQ=DAILY;|rrule FREQ=DAILY;FREQ=DAILY|rrule FREQ=DAILY;INTERVAL=0|rrule FREQ=DAILY;COUNT=5
rrule FREQ=DAILY;COUNT=1001 from 2026-01-01T09:00|rrule FREQ=DAILY;UNTIL=20261301
rrule FREQ=DAILY;UNTIL=2026|rrule FREQ=DAILY;BYHOUR=24|rrule FREQ=DAILY;BYHOUR=-1
rrule FREQ=MONTHLY;BYMONTHDAY=0|rrule FREQ=MONTHLY;BYDAY=54MO|rrule FREQ=WEEKLY;BYDAY=2MO
rrule FREQ=DAILY from|rrule FREQ=MONTHLY;BYDAY=MO,2TU|rrule FREQ=MONTHLY;BYWEEKNO=2
rrule FREQ=DAILY;BYYEARDAY=2|rrule FREQ=DAILY since|rrule FREQ=WEEKLY;BYMONTHDAY=2
rrule FREQ=MONTHLY;BYSETPOS=1|rrule FREQ=DAILY;WKST=XX|rrule FREQ=DAILY;BYEASTER=0
rrule FREQ=DAILY;COUNT=2;UNTIL=20261231 from 2026-01-01T09:00|rrule FREQ=DAILY from 2026-01-01
@midnight~|@daily ~|@daily~~|@minutely~|@daily~ x|not @daily~|every 1st of @daily
every 10001st of @daily|every 2 of @daily|every 2nd of|every 2nd of 61 * * * *
every 2nd of every 5m|every 2nd @daily|every 2nd of @daily from|every 2nd of @daily from noon
every 2nd of rrule FREQ=DAILY|every 2nd of not @daily|every 0000002nd of @daily
every 2nd of @daily~ ~
01234 * * * *|1/2/3 * * * *|* * * * mon-|1..5 * * * *|* * * * 1#1#1|* * * jan# *
"""
# SQL reads months and day numbers; which weekdays and nearest days exist takes a calendar.
ONLY_PYTHON_SEES = ["0 0 L-30 2 *", "0 0 30W 2 *", "0 0 31W 4 *", "0 0 L-30 feb ?"]
LINES = [text.replace("\n", "") for text in (GOOD + BAD).replace("\n", "|").split("|") if text]
LAYOUTS = [
    "",
    " ",
    "\n\n",
    "\t0 3 * * *\t",
    "0 3 * * *\r",
    "0 3 * * *\r\n0 4 * * *\r\n",
    "\n0 3 * * *\n\n@daily\n",
    "0 3 * * *\nevery 5m\n  0  4\t* * *",
    "0 3 * * *\nbad",
    "0 3\n* * *",
    "\n".join(f"{minute} 3 * * *" for minute in range(32)),
    "\n".join(f"{minute} 3 * * *" for minute in range(33)),
    "\n" * 40 + "0 3 * * *",
    "@daily\nnot 2026-12-24..2027-01-01,2027-05-01",
    "@daily\nNOT * * * * sat,sun\nnot @weekly\nnot at 2026-12-24T00:00",
    "@hourly\nnot 0 30 * * * *\nfrom 2026-01-01T00:00\nuntil 2027-01-01T00:00Z",
    "@daily\nfrom 2026-01-01T00:00\nFROM 2026-01-01T00:00",
    "@daily\nuntil 2026-01-01T00:00\nuntil 2026-01-02T00:00",
    "@daily\nfrom now",
    "@daily\nnot 2026-13-01",
    "@daily\nnot 2026-12-26..2026-12-24",
    "@daily\nnot 2026-12-24..",
    "@daily\nnot 2026-12-24...2026-12-26",
    "@daily\nnot ,2026-12-24",
    "@daily\nnot 9998-12-31",
    "@daily\nnot every 5m",
    "@daily\nnot not * * * * *",
    "@daily\nnot at",
    "@daily\nnot 61 * * * *",
    "@daily\nnot " + ",".join(["2026-12-24"] * 23),
    "@daily\nnot " + ",".join(["2026-12-24"] * 22),
    "not 2026-12-24\nfrom 2026-01-01T00:00",
    "@daily~\nnot @daily~",
    "0 3 * * *" + " " * 300,
    "every" + " " * 300 + "5m",
    " " * 4100 + "0 3 * * *",
    ",".join(["1"] * 64) + " * * * *",
    ",".join(["1"] * 65) + " * * * *",
    ",".join(["10-20/2"] * 31) + " * * * *",
    ",".join(["10-20/2"] * 40) + " * * * *",
    "0 3 * * * # nightly",
    "0 3 * * \u00fc",
    "0\u00a03 * * *",
    "\u0663 3 * * *",
]

_alphabet = st.sampled_from("0123456789*/,-?LW#lw@ \t\nabcdefghijmnorstuvyJANSUN:TZ+")
_field = st.one_of(
    st.sampled_from(["*", "?", "0", "5", "7", "29", "31", "L", "LW", "15W", "mon#2", "5L", "L5"]),
    st.from_regex(r"\A(\*|[0-9]{1,2}|mon|jan|sun)(-([0-9]{1,2}|fri|dec))?(/[0-9]{1,3})?\Z"),
    st.text(_alphabet, max_size=4),
)
_fields = st.lists(st.lists(_field, min_size=1, max_size=3).map(",".join), min_size=4, max_size=7)
_duration = st.from_regex(r"\A([0-9]{1,6}[dhmsx]){1,4}\Z")
_instant = st.from_regex(
    r"\A(19|20|99)[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9](:[0-6][0-9])?"
    r"(Z|[+-][0-2][0-9]:[0-6][0-9])\Z"
)
_part = st.one_of(
    st.sampled_from(["FREQ=DAILY", "FREQ=MONTHLY", "freq=yearly", "BYDAY=MO", "BYDAY=2TU,-1FR"]),
    st.from_regex(
        r"\A(INTERVAL|BYHOUR|BYMONTH|BYSETPOS|BYWEEKNO|COUNT)=-?[0-9]{1,4}(,[0-9]{1,2})?\Z"
    ),
    st.from_regex(r"\AUNTIL=(19|20)[0-9]{2}[01][0-9][0-3][0-9](T[0-2][0-9]{3}[0-6][0-9]Z?)?\Z"),
)
_line = st.one_of(
    _fields.map(" ".join),
    st.sampled_from(LINES),
    st.text(_alphabet, max_size=20),
    st.builds("every {}".format, _duration),
    st.builds("every {} from {}".format, _duration, _instant),
    st.builds("every {}nd of {}".format, st.integers(0, 10_002), _fields.map(" ".join)),
    st.builds("{} {}".format, st.sampled_from(["at", "not at", "from", "until"]), _instant),
    st.builds("not {}".format, st.one_of(_fields.map(" ".join), st.text(_alphabet, max_size=12))),
    st.builds("rrule {}".format, st.lists(_part, min_size=1, max_size=4).map(";".join)),
)
_specs = st.lists(st.lists(_line, min_size=1, max_size=2).map("\n".join), min_size=50, max_size=50)


@pytest.fixture(scope="module")
def judge(server: ThrowAwayServer, template: str) -> Iterator[psycopg.Connection]:
    """A connection to a database with a function that returns what spec_is_fine raises."""
    dsn = server.create_database("doors", template)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("""
            CREATE FUNCTION public.refusal(spec text) RETURNS text LANGUAGE plpgsql AS $$
            BEGIN
              PERFORM pgcron.spec_is_fine(spec);
              RETURN NULL;
            EXCEPTION WHEN SQLSTATE 'PC002' THEN
              RETURN SQLERRM;
            END $$""")
        yield connection
    server.drop_database("doors")


def refused_by_sql(judge: psycopg.Connection, specs: list[str]) -> list[str | None]:
    rows = judge.execute(
        "SELECT public.refusal(spec) FROM unnest(%s::text[]) WITH ORDINALITY given(spec, place) "
        "ORDER BY place",
        [specs],
    )
    return [row[0] for row in rows]


def refused_by_python(spec: str) -> str | None:
    try:
        parse_spec(spec, seed=EXAMPLE_SEED)
    except InvalidSpec as error:
        return error.message
    return None


def disagreements(judge: psycopg.Connection, specs: list[str]) -> list[tuple[str, object, object]]:
    return [
        (spec, by_sql, by_python)
        for spec, by_sql in zip(specs, refused_by_sql(judge, specs), strict=True)
        if (by_sql is None) != ((by_python := refused_by_python(spec)) is None)
        and not (by_sql is None and by_python is not None and "never fires" in by_python)
    ]


def test_the_corpus_says_what_is_good(judge: psycopg.Connection) -> None:
    good = [text for text in GOOD.replace("\n", "|").split("|") if text]
    bad = [text for text in BAD.replace("\n", "|").split("|") if text]

    refusals = refused_by_sql(judge, good)
    assert [(text, why) for text, why in zip(good, refusals, strict=True) if why] == []
    refusals = refused_by_sql(judge, bad)
    assert [text for text, why in zip(bad, refusals, strict=True) if not why] == []
    assert len(good) + len(bad) > 150


def test_both_doors_agree_on_the_corpus(judge: psycopg.Connection) -> None:
    assert disagreements(judge, LINES + LAYOUTS) == []


def test_what_only_python_sees_is_accepted_by_sql(judge: psycopg.Connection) -> None:
    assert refused_by_sql(judge, ONLY_PYTHON_SEES) == [None] * len(ONLY_PYTHON_SEES)
    assert all("never fires" in (refused_by_python(text) or "") for text in ONLY_PYTHON_SEES)


@pytest.mark.long
@given(specs=_specs)
@settings(
    derandomize=True,
    max_examples=40,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
def test_both_doors_agree_on_made_up_specs(judge: psycopg.Connection, specs: list[str]) -> None:
    assert disagreements(judge, specs) == []
