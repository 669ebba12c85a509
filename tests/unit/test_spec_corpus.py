"""What is a spec and what is none: a corpus by hand. `make fuzz-specs` has the random ones."""

from __future__ import annotations

import pytest

from pgcron_ha.errors import InvalidSpec
from tests.product.spec import EXAMPLE_SEED, parse_spec

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
rrule FREQ=WEEKLY;INTERVAL=2;WKST=SU|rrule FREQ=YEARLY;BYDAY=20MO
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
from 2026-01-01T00:00|until 2026-01-01T00:00|rrule|rrule FREQ=HOURLY|rrule INTERVAL=2
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
# Their days exist in no year.
NEVER = ["0 0 L-30 2 *", "0 0 30W 2 *", "0 0 31W 4 *", "0 0 L-30 feb ?"]


def lines(corpus: str) -> list[str]:
    return [text for text in corpus.replace("\n", "|").split("|") if text]


@pytest.mark.parametrize("spec", lines(GOOD))
def test_a_good_spec_is_read(spec: str) -> None:
    assert parse_spec(spec, seed=EXAMPLE_SEED).rules


@pytest.mark.parametrize("spec", [*lines(BAD), *NEVER])
def test_a_bad_spec_is_refused_with_the_rule_and_what_to_do(spec: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_spec(spec, seed=EXAMPLE_SEED)
    assert refused.value.detail
    assert refused.value.hint


@pytest.mark.parametrize("spec", NEVER)
def test_what_never_fires_is_refused(spec: str) -> None:
    with pytest.raises(InvalidSpec, match="never fires"):
        parse_spec(spec, seed=EXAMPLE_SEED)


def test_a_refused_cron_text_names_field_and_token() -> None:
    with pytest.raises(InvalidSpec, match='the hour field does not allow "25"'):
        parse_spec("0 25 * * *")
