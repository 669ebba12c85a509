"""``pgcron-ha next``: the fire times of a spec, for one reader or, with ``--batch``, for many."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO

import click

from pgcron_ha.cli.output import echo, print_json
from pgcron_ha.cli.preview_calendars import calendars_for
from pgcron_ha.cli.previews import fire_json, print_fires
from pgcron_ha.errors import InvalidInput, PgcronError
from pgcron_ha.spec.calendars.calendar import Calendars
from pgcron_ha.spec.cron.fires import DstPolicy, load_zone
from pgcron_ha.spec.preview import PreviewFire, marked
from pgcron_ha.spec.sentences import sentence
from pgcron_ha.spec.spec import Spec, parse_spec

DEFAULT_COUNT = 5
MOST_FIRES = 10_000
# A question is a spec of at most 4,096 characters, escaped at worst sixfold, and a few words.
MOST_BYTES_A_LINE = 65_536

_KEYS = ("id", "expr", "tz", "from", "count", "dst", "prev", "seed")


@dataclass(frozen=True)
class Question:
    """Which fires are asked for: ``count`` after ``start``, or before it, newest first."""

    spec: Spec
    start: datetime
    count: int
    backwards: bool

    def fires(self) -> Iterator[datetime]:
        """The answer, as far as there are fires."""
        step = self.spec.previous if self.backwards else self.spec.next
        fire = step(self.start)
        for _ in range(self.count):
            if fire is None:
                return
            yield fire
            fire = step(fire)

    def marked_fires(self) -> Iterator[PreviewFire]:
        """The answer with what the clock does to each."""
        last = None if self.backwards else self.start
        for fire in self.fires():
            yield marked(self.spec, fire, last)
            last = None if self.backwards else fire


@click.command("next")
@click.argument("spec", required=False)
@click.option("--tz", default="UTC", show_default=True, metavar="ZONE", help="An IANA time zone.")
@click.option(
    "--from",
    "start",
    metavar="ISO",
    help="List fires after (with --prev: before) this instant; without an offset it is local time"
    " in ZONE. Default: now.",
)
@click.option(
    "--count",
    type=click.IntRange(1, MOST_FIRES),
    default=DEFAULT_COUNT,
    show_default=True,
    help="How many.",
)
@click.option(
    "--dst",
    default="vixie",
    show_default=True,
    metavar="POLICY",
    help="vixie, robfig (alias kubernetes) or skip.",
)
@click.option("--seed", metavar="UUID", help="The schedule whose @daily~ (and its like) is meant.")
@click.option(
    "--calendar",
    "calendars",
    multiple=True,
    metavar="NAME=FILE",
    help="The lines of a calendar that SPEC names; others are those of the database, if there is"
    " one. May be given several times.",
)
@click.option("--prev", is_flag=True, help="Look back, newest first.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--batch", is_flag=True, help="Answer the questions on stdin, JSON lines, in order.")
def next_command(
    spec: str | None,
    tz: str,
    start: str | None,
    count: int,
    dst: str,
    seed: str | None,
    calendars: tuple[str, ...],
    prev: bool,
    as_json: bool,
    batch: bool,
) -> None:
    """Print SPEC in English and its fire times, in local time and in UTC.

    SPEC is a cron expression of five fields, or six with seconds first, "every 90m", "at INSTANT",
    "rrule FREQ=..." or "every 2nd of 0 9 * * mon"; several lines are a union, less what lines with
    "not" leave out, between those with "from" and "until". Time zones are those of the nodes if a
    database is named (--dsn), else those installed here. With --batch each line of stdin is a
    question {"id","expr","tz","from","count","dst","prev","seed"}.
    """
    if batch:
        if spec is not None or calendars:
            raise click.UsageError(
                "--batch reads its specs from stdin, without calendars; leave SPEC and --calendar"
                " out"
            )
        _answer_batch(sys.stdin.buffer)
        return
    if spec is None:
        raise click.UsageError("Missing argument 'SPEC' (or --batch).")
    found = calendars_for(spec, calendars)
    question = _question(spec, tz, start, count, dst, prev, seed, found)
    if as_json:
        _print_json(question)
    else:
        _print_table(question)


def _print_json(question: Question) -> None:
    for fire in question.marked_fires():
        print_json(fire_json(fire))


def _print_table(question: Question) -> None:
    for note in question.spec.notes:
        echo(f"note: {note}", err=True)
    fires = list(question.marked_fires())
    echo(sentence(question.spec))
    print_fires(fires, question.spec.timezone)
    if len(fires) < question.count:
        echo("no fires before that" if question.backwards else "no fires after that")


def _answer_batch(questions: BinaryIO) -> None:
    for line in _lines(questions):
        identity: object = None
        try:
            asked = _read_question(line)
            identity = asked.get("id")
            fires = [_utc_text(fire) for fire in _understood(asked).fires()]
            answer: dict[str, object] = {"fires": fires}
        except PgcronError as error:
            answer = {"error": error.as_json()}
        print_json({"id": identity, **answer})


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """The lines as they come; None for one that is too long, of which no more is kept."""
    while line := stream.readline(MOST_BYTES_A_LINE):
        if line.endswith(b"\n") or len(line) < MOST_BYTES_A_LINE:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(MOST_BYTES_A_LINE)
        yield None


def _read_question(line: bytes | None) -> dict[str, object]:
    rule = f"a question is a JSON object with {', '.join(_KEYS)}"
    hint = 'for example {"id": 1, "expr": "0 9 * * *", "tz": "Europe/Berlin", "count": 3}'
    if line is None:
        raise InvalidInput(
            "the line is too long", f"a line has less than {MOST_BYTES_A_LINE} bytes", hint
        )
    try:
        asked = json.loads(line, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        raise InvalidInput("the line is not JSON", rule, hint) from None
    if not isinstance(asked, dict):
        raise InvalidInput("the line is not a JSON object", rule, hint)
    return asked


def _understood(asked: dict[str, object]) -> Question:
    unknown = [key for key in asked if key not in _KEYS]
    if unknown:
        raise InvalidInput(
            f'a question has no key "{unknown[0][:40]}"',
            f"its keys are {', '.join(_KEYS)}",
            "remove the key or correct its spelling",
        )
    return _question(
        _word(asked, "expr", None),
        _word(asked, "tz", "UTC"),
        _word(asked, "from", ""),
        _count(asked),
        _word(asked, "dst", "vixie"),
        _backwards(asked),
        _word(asked, "seed", "") or None,
    )


def _refuse_constant(name: str) -> object:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(text)
    return number


def _word(asked: dict[str, object], key: str, default: str | None) -> str:
    value = asked.get(key)
    if value is None:
        value = default
    if not isinstance(value, str):
        found = "is missing" if value is None else "is not text"
        raise InvalidInput(f'"{key}" {found}', f'"{key}" is a JSON string', _hint_of(key))
    return value


def _count(asked: dict[str, object]) -> int:
    count = DEFAULT_COUNT if asked.get("count") is None else asked["count"]
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_FIRES:
        raise InvalidInput(
            '"count" is not a number of fires', f"a count is 1 to {MOST_FIRES}", _hint_of("count")
        )
    return count


def _backwards(asked: dict[str, object]) -> bool:
    prev = asked.get("prev")
    if prev is None or isinstance(prev, bool):
        return bool(prev)
    raise InvalidInput('"prev" is not true or false', '"prev" is a JSON boolean', _hint_of("prev"))


def _hint_of(key: str) -> str:
    examples = {
        "expr": '"0 9 * * mon-fri"',
        "tz": '"Europe/Berlin"',
        "from": '"2026-01-01T00:00:00Z"',
        "count": "5",
        "dst": '"vixie"',
        "prev": "true",
        "seed": '"8f14e45f-ceea-467f-9575-9dc4a1c9e2b1"',
    }
    return f'for example {{"{key}": {examples[key]}}}'


def _question(
    spec: str,
    tz: str,
    start: str | None,
    count: int,
    dst: str,
    backwards: bool,
    seed: str | None,
    calendars: Calendars = (),
) -> Question:
    parsed = parse_spec(spec, tz, DstPolicy.parse(dst), seed, calendars)
    moment = _instant(start, tz) if start else datetime.now(UTC)
    return Question(parsed, moment, count, backwards)


def _instant(text: str, tz: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f'"{text[:40]}" is not an ISO 8601 date and time',
            "with an offset (Z, +01:00) it is an instant, without one local time in the zone",
            'for example "2026-01-01T00:00:00Z" or "2026-01-01 09:00"',
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=load_zone(tz))


def _utc_text(fire: datetime) -> str:
    return f"{fire:%Y-%m-%dT%H:%M:%SZ}"
