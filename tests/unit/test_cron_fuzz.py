"""No text and no instant makes the engine fail, disagree with itself, or work for long."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import TYPE_CHECKING

import pytest
from croniter import croniter
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pgcron_ha.errors import InvalidSpec
from tests.product.spec import (
    MACROS,
    DstPolicy,
    fires_between,
    load_zone,
    next_fire,
    parse_cron,
    parse_spec,
    previous_fire,
    read_spec,
    zones,
)
from tests.product.spec import expression as cron_expression
from tests.unit.cron_oracle import fires_of_walk, job, tzdata_zone, walk

if TYPE_CHECKING:
    from _typeshed import TraceFunction

# Lines of Python executed, product and croniter together: 300,000 took 15 to 25 ms on the slowest
# machine seen, half of what any input may take. A loop that runs away is far beyond.
MOST_LINES_EXECUTED = 300_000

bounded = settings(max_examples=150, deadline=None, derandomize=True, database=None)
few = settings(bounded, max_examples=60)

policies = st.sampled_from(DstPolicy)
instants = st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))
zone_names = st.sampled_from(sorted(zones.zone_names()))


def numbers(low: int, high: int) -> st.SearchStrategy[str]:
    """Items of one field: numbers, ranges, steps, and lists of them."""
    number = st.integers(low, high)
    item = st.one_of(
        number.map(str),
        st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}"),
        st.tuples(number, number, st.integers(1, 9)).map(
            lambda three: f"{min(three[:2])}-{max(three[:2])}/{three[2]}"
        ),
        st.integers(1, 70).map(lambda step: f"*/{step}"),
        st.just("*"),
    )
    return st.lists(item, min_size=1, max_size=3).map(",".join)


days = st.one_of(
    numbers(1, 31),
    st.sampled_from(["*", "?", "L", "LW", "L-3", "15W", "31W", "1W,L", "*/10,LW", "29"]),
)
weekdays = st.one_of(
    numbers(0, 7),
    st.sampled_from(["*", "?", "mon-fri", "fri-sun", "5L", "L0", "sun#5", "*/2,fri#3", "mon#1,2"]),
)
months = st.one_of(numbers(1, 12), st.sampled_from(["*", "feb", "mar,oct"]))
valid = st.tuples(numbers(0, 59), numbers(0, 23), days, months, weekdays).map(" ".join)
with_seconds = st.tuples(numbers(0, 59), valid).map(" ".join)
near_valid = st.text(alphabet="0123456789*,-/#?LWlw @monafebj\t\n~RH٣", max_size=60)


def lines_executed(work: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def forget_everything() -> None:
    for cached in (parse_cron, read_spec, zones.changes_of_year, cron_expression.from_monday):
        cached.cache_clear()


def accepted(text: str) -> bool:
    try:
        parse_cron(text)
    except InvalidSpec as error:
        refusal = error
    else:
        return True
    assert refusal.message
    assert refusal.detail
    assert refusal.hint
    assert len(refusal.message) < 400
    return False


@bounded
@given(st.one_of(st.text(max_size=300), near_valid, valid, with_seconds))
@example("0 0 1-7 * mon#5")
@example("\x00 * * * *")
@example("@" * 255)
@example("* * * * " + "/" * 240)
def test_any_text_is_an_expression_or_refused_in_three_sentences(text: str) -> None:
    if accepted(text):
        again = parse_cron(parse_cron(text).canonical)
        assert again == parse_cron(text)
        assert again.canonical == parse_cron(text).canonical


@bounded
@given(st.text(alphabet="every from0123456789dhms:-TZ\n*/@nota", max_size=80))
def test_any_text_is_a_spec_or_refused(text: str) -> None:
    try:
        spec = parse_spec(text)
    except InvalidSpec:
        return
    assert parse_spec(spec.canonical) == spec


def lists(low: int, high: int) -> st.SearchStrategy[str]:
    values = st.lists(st.integers(low, high), min_size=1, max_size=5, unique=True)
    return st.one_of(st.just("*"), values.map(lambda some: ",".join(map(str, sorted(some)))))


@bounded
@given(
    st.tuples(lists(0, 59), lists(0, 59), lists(0, 23), lists(1, 31), lists(1, 12), lists(0, 6)),
    st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1)),
)
def test_plain_lists_name_the_wall_times_that_croniter_names(
    fields: tuple[str, ...], wall: datetime
) -> None:
    text = " ".join(fields)
    assume(accepted(text))
    theirs = croniter(text, wall, ret_type=datetime, second_at_beginning=True)
    own = parse_cron(text)
    for _ in range(3):
        following: datetime = theirs.get_next()
        assert own.wall_after(wall, datetime.max) == following
        wall = following


@bounded
@given(st.one_of(valid, with_seconds), zone_names, instants, policies)
def test_looking_back_is_looking_forward_reversed(
    text: str, zone: str, moment: datetime, policy: DstPolicy
) -> None:
    assume(accepted(text))
    expression = parse_cron(text)
    following = next_fire(expression, zone, moment, policy)
    preceding = previous_fire(expression, zone, moment, policy)
    if following is not None:
        assert following > moment
        assert previous_fire(expression, zone, following, policy) in (preceding, moment)
    if preceding is not None:
        assert preceding < moment
        assert next_fire(expression, zone, preceding, policy) in (following, moment)
        assert preceding.microsecond == 0


@bounded
@given(
    st.one_of(valid, with_seconds, st.just("every 7m")),
    zone_names,
    instants,
    st.timedeltas(timedelta(-1), timedelta(days=9)),
    policies,
)
def test_counting_is_enumerating(
    text: str, zone: str, moment: datetime, span: timedelta, policy: DstPolicy
) -> None:
    assume(text.startswith("every") or accepted(text))
    for spec in (parse_spec(text, zone, policy), parse_spec(f"{text}\n@daily", zone, policy)):
        counted = spec.count(moment, moment + span, 300)
        assert min(counted, 301) == len(spec.between(moment, moment + span, 301))


@few
@given(valid, zone_names, instants, policies)
def test_any_expression_fires_as_the_slow_reading_says(
    text: str, zone: str, moment: datetime, policy: DstPolicy
) -> None:
    assume(accepted(text))
    start = moment.replace(second=0, microsecond=0)
    change = zones.first_change(zone, start.replace(tzinfo=None), datetime(2041, 1, 1))
    if change is not None:  # where it is hard
        start = change.at.replace(tzinfo=UTC) - timedelta(hours=8)
    end = start + timedelta(hours=16)
    steps = walk(tzdata_zone(zone), start, end, timedelta(minutes=1))
    expected = fires_of_walk(job(text), steps)[policy]
    expression = parse_cron(text)
    before = start - timedelta(seconds=1)
    assert fires_between(expression, zone, before, end, policy, 2000) == expected


@pytest.mark.parametrize(
    "text",
    [
        "0 0 29 2 1",
        "0 0 */28 2 mon#5",
        "* * * * * *",
        "0 0 30 2 *",
        "0 0 1-7 * mon#5",
        "0 0 1-7#5 * *",
        "0 0 */31,8-31 * mon#1",
        "0 0 */31,1-14 * mon#3,tue#3,wed#3,thu#3,fri#3,sat#3,sun#3",
        "0 0 */31,1-20 * L0,L1,L2,L3,L4,L5,L6",
        "0 0 */2,LW,L-9,1W,2W,3W,15W,30W,31W */2 0#1,1#2,2#3,3#4,4#5,L5,L6",
        ",".join(["0-59"] * 40) + " * * * *",
        "* * * * " + ",".join(["1#1"] * 60),
        "9" * 100_000,
        "/" * 5_000_000,
        "0-59/5 8-18 * 1-6 mon-fri",
    ],
)
def test_no_text_takes_long_to_read(text: str) -> None:
    forget_everything()
    assert lines_executed(lambda: accepted(text)) < MOST_LINES_EXECUTED


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("* * * * * *", "Europe/Berlin", "2026-03-29T00:59:59"),
        ("* * * * * *", "Pacific/Apia", "2011-12-30T09:59:59"),
        ("59 59 23 30 12 *", "Pacific/Apia", "2011-12-29T00:00:00"),
        ("0 0 29 2 1", "Europe/Berlin", "2096-03-01T00:00:00"),
        ("0 0 */28 2 mon#5", "America/New_York", "2072-03-01T00:00:00"),
        ("30 2 * 3 sun#2", "America/New_York", "2008-01-01T00:00:00"),
        ("30 2 * 3 sun#2", "America/New_York", "9990-01-01T00:00:00"),
        ("0 0 1 1 *", "Africa/Casablanca", "2026-01-01T00:00:00"),
    ],
)
def test_no_next_and_no_previous_takes_long(text: str, zone: str, moment: str) -> None:
    expression = parse_cron(text)
    instant = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    load_zone(zone)
    for policy in DstPolicy:
        for look in (next_fire, previous_fire):
            zones.changes_of_year.cache_clear()
            cron_expression.from_monday.cache_clear()
            executed = lines_executed(lambda: look(expression, zone, instant, policy))  # noqa: B023
            assert executed < MOST_LINES_EXECUTED, (look.__name__, policy, executed)


def test_a_spec_of_many_hard_lines_is_answered_in_bounded_steps() -> None:
    forget_everything()
    text = "\n".join(f"{minute} 2 * 3 sun#2" for minute in range(32))
    spec = parse_spec(text, "America/New_York", DstPolicy.ROBFIG)
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert lines_executed(lambda: spec.next(moment)) < MOST_LINES_EXECUTED
    assert spec.next(moment) is None


@bounded
@given(st.sampled_from(sorted(MACROS)), st.sampled_from([str.upper, str.title, str.lower]))
def test_macros_are_read_in_any_case(macro: str, spelled: Callable[[str], str]) -> None:
    assert parse_cron(spelled(macro)) == parse_cron(MACROS[macro])
