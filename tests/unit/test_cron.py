"""Cron text: what is read, what it means, what is refused; known traps of other readers."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from pgcron_ha.errors import InvalidInput, InvalidSpec, UnknownZone
from tests.product.spec import (
    DstPolicy,
    fires_between,
    load_zone,
    next_fire,
    parse_cron,
    previous_fire,
)
from tests.unit.cron_oracle import date_matches, job


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def fires(
    text: str,
    zone: str = "UTC",
    after: str = "2026-01-01",
    count: int = 3,
    dst: DstPolicy = DstPolicy.VIXIE,
) -> list[str]:
    found = fires_between(parse_cron(text), zone, utc(after), utc("2200-01-01"), dst, count)
    return [fire.strftime("%Y-%m-%d %H:%M:%S").removesuffix(":00") for fire in found]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("*/1 * * * *", "* * * * *"),
        ("5-5 * * * *", "5 * * * *"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * 1-7", "0 0 * * 0-6"),
        ("0 0 * * fri-sun", "0 0 * * 0,5,6"),
        ("0 0 * * 5-0", "0 0 * * 0,5,6"),
        ("0 0 * * 0-0", "0 0 * * 0"),
        ("0 0 ? * MON", "0 0 * * 1"),
        ("0 0 0 ? * MON#1,FRI/2", "0 0 * * 5,1#1"),
        ("0 0 * * 5L", "0 0 * * L5"),
        ("0 0 * * friL", "0 0 * * L5"),
        ("0 0 * * 7#1", "0 0 * * 0#1"),
        ("0 0 l,lw,l-03,05w * *", "0 0 5W,L,L-3,LW * *"),
        ("0-59 0-23 * jan-dec *", "0-59 0-23 * * *"),
        ("*/15,7 * * * *", "*/15,7 * * * *"),
        ("*/30,15,45 * * * *", "*/15 * * * *"),
        ("0 0 1,*/10 * *", "0 0 1,11,21,31 * *"),
        ("59/15 23/6 31/5 12/3 6/1", "59 23 31 12 6"),
        ("10/20 * * * *", "10,30,50 * * * *"),
        ("*/61 * * * *", "*/60 * * * *"),
        ("00 09 01 * *", "0 9 1 * *"),
        ("0 0 9 * * *", "0 9 * * *"),
        ("*/10 0 9 * * *", "*/10 0 9 * * *"),
        ("@Daily", "0 0 * * *"),
        (" @hourly\t", "0 * * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@ANNUALLY", "0 0 1 1 *"),
        ("\t0  9 * \t * 1-5 ", "0 9 * * 1-5"),
    ],
)
def test_canonical_text_is_one_for_all_spellings_and_reads_back(text: str, canonical: str) -> None:
    expression = parse_cron(text)
    assert expression.canonical == canonical
    again = parse_cron(canonical)
    assert again == expression
    assert again.canonical == canonical
    assert again.wildcard == expression.wildcard


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("60 * * * *", 'minute field does not allow "60"'),
        ("* 24 * * *", 'hour field does not allow "24"'),
        ("* * 0 * *", 'day field does not allow "0"'),
        ("* * * 13 *", 'month field does not allow "13"'),
        ("* * * * 8", 'weekday field does not allow "8"'),
        ("60 * * * * *", 'second field does not allow "60"'),
        ("5-1 * * * *", 'minute field does not allow "5-1"'),
        ("0 22-2 * * *", 'hour field does not allow "22-2"'),
        ("0 0 31-1 * *", 'day field does not allow "31-1"'),
        ("0 0 * * 5-1", 'weekday field does not allow "5-1"'),
        ("*/0 * * * *", 'minute field does not allow "*/0"'),
        ("*-5 * * * *", 'minute field does not allow "*-5"'),
        ("5-5/0 * * * *", 'minute field does not allow "5-5/0"'),
        ("*/99999 * * * *", 'minute field does not allow "*/99999"'),
        ("005 * * * *", 'minute field does not allow "005"'),
        ("1,,2 * * * *", 'minute field does not allow ""'),
        ("R R * * *", 'minute field does not allow "R"'),
        ("H(0-9) * * * *", 'minute field does not allow "H(0-9)"'),
        ("0 0 1~9 * *", 'day field does not allow "1~9"'),
        ("0 0 12 ? * 2", '"2" beside ? could be read in two ways'),
        ("0 0 12 ? * 6L", '"6L" beside ? could be read in two ways'),
        ("0 0 12 ? JAN MON,7#1", '"MON,7#1" beside ? could be read in two ways'),
        ("0 0 12 ? * MON 2026", "has 7 fields"),
        ("? * * * *", 'minute field does not allow "?"'),
        ("0 0 ?,1 * *", 'day field does not allow "?"'),
        ("0 0 * january *", 'month field does not allow "january"'),
        ("mon * * * *", 'minute field does not allow "mon"'),
        ("0 0 * mon *", 'month field does not allow "mon"'),
        ("0 0 L-0 * *", 'day field does not allow "L-0"'),
        ("0 0 L-31 * *", 'day field does not allow "L-31"'),
        ("0 0 32W * *", 'day field does not allow "32W"'),
        ("0 0 W1 * *", 'day field does not allow "W1"'),
        ("0 0 * * L", 'weekday field does not allow "L"'),
        ("0 0 * * 1#6", 'weekday field does not allow "1#6"'),
        ("0 0 * * 1-7#5", 'weekday field does not allow "1-7#5"'),
        ("0 0 * * 8#1", 'weekday field does not allow "8#1"'),
        ("* * * *", "has 4 fields"),
        ("* * * * * * *", "has 7 fields"),
        ("", "has 0 fields"),
        ("0 0 * * *\n", "weekday field"),
        ("@reboot", '"@reboot" is not a known macro'),
        ("@every 5m", '"@every 5m" is not a known macro'),
        ("٣ * * * *", 'contains "٣"'),
        ("0 0\u00a0* * *", "plain ASCII"),
        ("0" * 4301 + " * * * *", "minute field"),
        ("0 0 30 2 *", "never fires"),
        ("0 0 31 2,4,6,9,11 *", "never fires"),
        ("0 0 31W 4 *", "never fires"),
        ("0 0 L-30 4,6 *", "never fires"),
        ("0 0 */31,15-31 * mon#2", "never fires"),
        ("0 0 */31,1-14 * mon#3,tue#3,wed#3,thu#3,fri#3,sat#3,sun#3", "never fires"),
    ],
)
def test_what_the_grammar_lacks_is_refused_by_field_and_token(text: str, named: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parse_cron(text)
    assert named in f"{refusal.value.message} {refusal.value.detail}"
    assert refusal.value.detail
    assert refusal.value.hint


def test_the_hint_of_a_refusal_is_an_expression_that_is_accepted() -> None:
    for text in ("x * * * * *", "x * * * *", "0 x * * *", "0 0 x * *", "0 0 * x *", "0 0 * * x"):
        with pytest.raises(InvalidSpec) as refusal:
            parse_cron(text)
        assert refusal.value.hint is not None
        parse_cron(refusal.value.hint.split('"')[1])


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("0 12 * * *", "2026-01-01", ["2026-01-01 12:00", "2026-01-02 12:00"]),
        ("0 0 12 * * *", "2026-01-01", ["2026-01-01 12:00", "2026-01-02 12:00"]),
        ("5,7 59 23 * * *", "2026-01-01", ["2026-01-01 23:59:05", "2026-01-01 23:59:07"]),
        ("0 0 * * 1-1", "2026-01-01", ["2026-01-05 00:00", "2026-01-12 00:00"]),
        ("0 0 */1 * 5", "2026-01-01", ["2026-01-02 00:00", "2026-01-09 00:00"]),
        ("0 0 13 * */1", "2026-01-01", ["2026-01-13 00:00", "2026-02-13 00:00"]),
        ("0 0 */2 * 1-5", "2022-08-09", ["2022-08-11 00:00", "2022-08-15 00:00"]),
        ("0 0 1 * mon#1", "2026-01-01", ["2026-01-05 00:00", "2026-02-01 00:00"]),
        ("0 0 8 * 5#3", "2026-01-01", ["2026-01-08 00:00", "2026-01-16 00:00"]),
        ("0 0 * * mon#2,tue", "2026-01-07", ["2026-01-12 00:00", "2026-01-13 00:00"]),
        ("0 9 31W * *", "2024-11-01", ["2024-12-31 09:00", "2025-01-31 09:00"]),
        ("0 9 1W * *", "2026-07-15", ["2026-08-03 09:00", "2026-09-01 09:00"]),
        ("0 9 LW * *", "2026-01-01", ["2026-01-30 09:00", "2026-02-27 09:00"]),
        ("0 9 L-3 * *", "2026-01-01", ["2026-01-28 09:00", "2026-02-25 09:00"]),
        ("0 9 L * *", "2028-02-01", ["2028-02-29 09:00", "2028-03-31 09:00"]),
        ("0 9 * * 5L", "2026-01-01", ["2026-01-30 09:00", "2026-02-27 09:00"]),
        ("0 0 29 2 1", "2026-01-01", ["2026-02-02 00:00", "2026-02-09 00:00"]),
        ("0 0 31 2 0", "2026-01-01", ["2026-02-01 00:00", "2026-02-08 00:00"]),
        ("0 0 29 2 *", "2096-03-01", ["2104-02-29 00:00", "2108-02-29 00:00"]),
        ("0 0 */28 2 mon#5", "2050-01-01", ["2072-02-29 00:00", "2112-02-29 00:00"]),
    ],
)
def test_the_calendar_is_that_of_vixie_and_quartz(
    text: str, after: str, expected: list[str]
) -> None:
    assert fires(text, after=after, count=2) == expected


@pytest.mark.parametrize(
    "days",
    [
        "* * *", "L * *", "LW * *", "L-1,L-29 * *", "1W,15W,29W,31W * *", "*/9,LW * fri#2",
        "1-31 * mon", "* */5 sun#5,mon#1", "29-31 2,4 *", "*/2 * 5l,2", "13 * fri", "? 2 sun",
        "28/1 feb,nov 0,6", "1-7,l-10 * */3", "31 * 7", "*,15w jun tue#1",
    ],
)  # fmt: skip
def test_the_days_of_an_expression_are_those_of_the_slow_reading(days: str) -> None:
    expression, spec = parse_cron(f"0 0 {days}"), job(f"0 0 {days}")
    for year in (1999, 2000, 2023, 2024, 2026, 2100):
        day = date(year, 1, 1)
        while day.year == year:
            assert expression.days.has(day) == date_matches(spec, day), day
            day += timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "zone", "after", "policy", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "vixie", ["25 00:30", "26 01:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "robfig", ["25 00:30", "25 01:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "skip", ["25 00:30", "26 01:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25 01:10", "vixie", ["26 01:30", "27 01:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", "vixie", ["29 01:00", "30 00:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", "robfig", ["30 00:30", "31 00:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", "skip", ["30 00:30", "31 00:30"]),
        ("0 */2 * * *", "Europe/Berlin", "2026-03-29 00:00", "vixie", ["29 02:00", "29 04:00"]),
        ("*/30 2 * * *", "Europe/Berlin", "2026-03-29 00:00", "vixie", ["30 00:00", "30 00:30"]),
        ("*/30 2 * * *", "Europe/Berlin", "2026-10-25 00:15", "skip", ["25 00:30", "25 01:00"]),
        ("0,30 2 * * *", "Europe/Berlin", "2026-03-29 00:00", "vixie", ["29 01:00", "30 00:00"]),
        ("30 2 * * *", "Pacific/Apia", "2011-12-29 13:00", "vixie", ["30 12:30", "31 12:30"]),
        ("0 0 * * *", "America/Sao_Paulo", "2018-11-03 12:00", "vixie", ["04 03:00", "05 02:00"]),
        ("30 * * * *", "Australia/Lord_Howe", "2026-10-03 15:15", "skip",
         ["03 15:30", "03 16:30"]),
        ("45 2 * * *", "America/Caracas", "2007-12-08 12:00", "vixie", ["09 06:45", "10 07:15"]),
        ("0 * * * *", "America/Caracas", "2016-05-01 06:45", "vixie", ["01 07:00", "01 08:00"]),
        ("15 */3 * * *", "America/St_Johns", "2002-10-27 02:03", "vixie", ["27 03:45", "27 06:45"]),
    ],
)  # fmt: skip
def test_changes_of_the_clock_known_from_other_readers(
    text: str, zone: str, after: str, policy: str, expected: list[str]
) -> None:
    found = fires(text, zone, after, 2, DstPolicy.parse(policy))
    assert [fire[8:] for fire in found] == expected


def test_an_expression_that_only_ever_names_skipped_times_ends() -> None:
    expression = parse_cron("30 2 * 3 sun#2")
    after = utc("2008-01-01")
    assert next_fire(expression, "America/New_York", after, DstPolicy.ROBFIG) is None
    assert next_fire(expression, "America/New_York", after, DstPolicy.VIXIE) == utc(
        "2008-03-09 07:00"
    )


def test_nothing_fires_outside_the_calendar_of_the_product() -> None:
    expression = parse_cron("* * * * *")
    lowest, highest = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))
    for zone in ("UTC", "Pacific/Kiritimati", "America/Los_Angeles"):
        for policy in DstPolicy:
            assert next_fire(expression, zone, highest, policy) is None
            assert previous_fire(expression, zone, lowest, policy) is None
            assert next_fire(expression, zone, lowest, policy) is not None
            assert previous_fire(expression, zone, highest, policy) is not None


def test_fractions_of_a_second_do_not_hide_a_fire() -> None:
    expression = parse_cron("* * * * *")
    half = utc("2026-01-01T00:00:00.500000")
    assert previous_fire(expression, "UTC", half) == utc("2026-01-01T00:00")
    assert next_fire(expression, "UTC", half) == utc("2026-01-01T00:01")
    assert previous_fire(expression, "UTC", utc("2026-01-01T00:00")) == utc("2025-12-31T23:59")


def test_a_naive_instant_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="offset"):
        next_fire(parse_cron("* * * * *"), "UTC", datetime(2026, 1, 1))


def test_a_step_in_a_day_field_beside_the_other_is_said_to_differ_from_kubernetes() -> None:
    assert "Kubernetes" in parse_cron("0 0 */2 * 1-5").notes[0]
    assert "or" in parse_cron("0 0 13 * 5").notes[0]
    assert parse_cron("0 0 */1 * 5").notes == ()
    assert parse_cron("0 0 */2 * *").notes == ()


def test_policies_have_names_and_an_alias() -> None:
    assert DstPolicy.parse("Kubernetes") is DstPolicy.ROBFIG
    assert DstPolicy.parse(" vixie ") is DstPolicy.VIXIE
    with pytest.raises(InvalidInput) as refusal:
        DstPolicy.parse("utc")
    assert refusal.value.message == '"utc" is not a DST policy'
    assert "kubernetes" in str(refusal.value.detail)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("America/New York", "America/New_York"),
        ("localtime", ""),
        ("posixrules", ""),
        ("../../etc/passwd", ""),
        ("/usr/share/zoneinfo/UTC", ""),
        ("Factory", ""),
        ("", ""),
        ("Europe", ""),
        ("x" * 10_000, ""),
    ],
)
def test_only_exact_names_of_zones_are_taken(name: str, nearest: str) -> None:
    with pytest.raises(UnknownZone) as refusal:
        load_zone(name)
    assert nearest in str(refusal.value.hint)
    assert len(refusal.value.message) < 100


def test_a_zone_is_read_from_the_package_under_its_name() -> None:
    assert load_zone("Europe/Berlin").key == "Europe/Berlin"
    assert load_zone("America/Argentina/Buenos_Aires") is load_zone(
        "America/Argentina/Buenos_Aires"
    )
