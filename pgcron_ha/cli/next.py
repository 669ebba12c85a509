"""``pgcron-ha next``: the fire times of a spec, for one reader or, with ``--batch``, for many."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.output import echo, print_json
from pgcron_ha.cli.session import call
from pgcron_ha.db.commands.calendars import calendars_of
from pgcron_ha.errors import InvalidInput, InvalidSpec, PgcronError
from pgcron_ha.spec.calendars.calendar import MOST_CHARACTERS, NAME, Calendars, parts_of
from pgcron_ha.spec.cron.fires import DstPolicy
from pgcron_ha.spec.preview import Preview, PreviewFire, marked
from pgcron_ha.spec.sentences import sentence
from pgcron_ha.spec.spec import Spec, calendar_names, parse_spec

DEFAULT_COUNT = 5
MOST_FIRES = 10_000
_LOCAL_WIDTH = 32
# A question is a spec of at most 4,096 characters, escaped at worst sixfold, and a few words.
MOST_BYTES_A_LINE = 65_536


class _Key(NamedTuple):
    """What a question may have under a key: of which type, how it is written, what it is else."""

    kind: type
    rule: str
    wrong: str
    default: object
    example: str


def _text(default: str | None, example: str) -> _Key:
    return _Key(str, "a JSON string", "text", default, example)


_KEYS: Final = {
    "id": _Key(object, "any JSON value", "", None, "1"),
    "expr": _text(None, '"0 9 * * mon-fri"'),
    "tz": _text("UTC", '"Europe/Berlin"'),
    "from": _text("", '"2026-01-01T00:00:00Z"'),
    "count": _Key(int, f"1 to {MOST_FIRES}", "a number of fires", DEFAULT_COUNT, "5"),
    "dst": _text("vixie", '"vixie"'),
    "prev": _Key(bool, "a JSON boolean", "true or false", False, "true"),
    "seed": _text("", '"8f14e45f-ceea-467f-9575-9dc4a1c9e2b1"'),
}


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
@arguments.json_option
@click.option("--batch", is_flag=True, help="Answer the questions on stdin, JSON lines, in order.")
def next_command(
    spec: str | None, calendars: tuple[str, ...], as_json: bool, batch: bool, **given: Any
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
    question = _question({**given, "expr": spec}, _calendars_for(spec, calendars))
    if as_json:
        for fire in question.marked_fires():
            print_json(fire_json(fire))
        return
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
    return _question({key: _value(asked, key) for key in _KEYS if key != "id"})


def _value(asked: dict[str, object], key: str) -> Any:
    """What the question has under the key; null is its default."""
    allowed = _KEYS[key]
    value: Any = allowed.default if asked.get(key) is None else asked[key]
    is_right = type(value) is allowed.kind
    if not is_right or (key == "count" and not 1 <= value <= MOST_FIRES):
        found = "is missing" if value is None else f"is not {allowed.wrong}"
        raise InvalidInput(
            f'"{key}" {found}',
            f'"{key}" is {allowed.rule}',
            f'for example {{"{key}": {allowed.example}}}',
        )
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(text)
    return number


def _question(given: Mapping[str, Any], calendars: Calendars = ()) -> Question:
    """What a question of a batch, or the options of the command, ask for."""
    timezone, dst = given["tz"], DstPolicy.parse(given["dst"])
    parsed = parse_spec(given["expr"], timezone, dst, given["seed"] or None, calendars)
    moment = datetime.now(UTC)
    if given["from"]:
        moment = arguments.in_zone(arguments.local_instant("from", given["from"]), timezone)
    return Question(parsed, moment, given["count"], given["prev"])


def _utc_text(fire: datetime) -> str:
    return f"{fire:%Y-%m-%dT%H:%M:%SZ}"


def _calendars_for(spec: str, given: Sequence[str]) -> Calendars:
    """What the spec needs, and no more. ``given`` are ``NAME=FILE``; what they don't have is asked
    of the database, if there is one. A spec that names no calendar needs neither.

    Raises InvalidSpec for a calendar that is not known, InvalidInput for a file that can't be read.
    """
    contents = dict(_from_file(one) for one in given)
    if "in" not in spec.lower().split():
        return ()
    names = calendar_names(spec)
    while missing := _missing(names, contents):
        found = _of_database(missing)
        if not set(missing) & set(found):
            raise InvalidSpec(
                f'calendar "{missing[0]}" is not known',
                "a spec names calendars that exist, spelled exactly",
                f"give its lines (--calendar {missing[0]}=FILE), or the database with it (--dsn)",
            )
        contents = {**found, **contents}
    return tuple(sorted((name, contents[name]) for name in _reached(names, contents)))


def _reached(names: Iterable[str], contents: Mapping[str, str]) -> list[str]:
    """These calendars and those that they name, known or not."""
    reached = list(names)
    for name in reached:  # it grows as they name others
        reached += [part for part in parts_of(contents.get(name, "")) if part not in reached]
    return reached


def _missing(names: Iterable[str], contents: Mapping[str, str]) -> list[str]:
    return [name for name in _reached(names, contents) if name not in contents]


def _of_database(names: Sequence[str]) -> dict[str, str]:
    if command_context().load().dsn is None:
        return {}
    asked = "\n".join(f"not in {name}" for name in names)
    found = call(calendars_of, asked)
    contents: dict[str, str] = json.loads(found or "{}")
    return contents


def _from_file(given: str) -> tuple[str, str]:
    name, is_given, path = given.partition("=")
    if not is_given or not NAME.fullmatch(name):
        raise InvalidInput(
            f"{given[:100]!r} does not name a calendar and its file",
            "It is written NAME=FILE; the file has a rule in each line.",
            "Write for example --calendar holidays=holidays.txt.",
        )
    return name, arguments.file_text(Path(path), 4 * MOST_CHARACTERS)


def print_preview(preview: Preview) -> None:
    """The sentence and the fires; notes for who wrote the spec go to stderr."""
    for note in preview.notes:
        echo(f"note: {note}", err=True)
    echo(preview.sentence)
    print_fires(preview.fires, preview.timezone)
    if preview.is_over:
        echo("no fires after that")


def print_fires(fires: Iterable[PreviewFire], timezone: str) -> None:
    """A line for each, under their headings; nothing for none."""
    for number, fire in enumerate(fires):
        if number == 0:
            echo(f"{timezone:<{_LOCAL_WIDTH}}UTC")
        note = f"   {fire.note}" if fire.note else ""
        echo(f"{fire.local_text:<{_LOCAL_WIDTH}}{fire.utc_text}{note}")


def fire_json(fire: PreviewFire) -> dict[str, str | None]:
    """As ``next --json`` and ``schedules show --json`` print one."""
    return {"fire_at": fire.utc_text, "local": fire.local.isoformat(), "note": fire.note}
