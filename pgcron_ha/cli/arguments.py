"""Words of the command line to values; what can't be read is `InvalidInput` with a hint."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from inspect import iscoroutinefunction
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click

from pgcron_ha.cli.output import choose_json, shown
from pgcron_ha.cli.session import Session, with_session
from pgcron_ha.client import checks
from pgcron_ha.config.values import WrittenTime, read_time
from pgcron_ha.db.queries import overview
from pgcron_ha.errors import InvalidInput
from pgcron_ha.spec.zones import load_zone

Command = TypeVar("Command", bound=Callable[..., Any])

MOST_ROWS: Final = 10_000


RUN_ID = click.IntRange(1, 2**63 - 1)
RUN_ID.name = "run id"  # what click calls it when it refuses a word


def local_instant(option: str, text: str) -> WrittenTime:
    """``now``, ``18:30`` (today), ``yesterday 03:00``, a duration such as ``2h``, or ISO 8601 with
    or without an offset. `in_zone` says which instant it is.
    """
    try:
        return read_time(text)
    except (ValueError, OverflowError):
        is_day = text.strip() in ("yesterday", "today", "tomorrow")
        raise InvalidInput(
            f"{option} '{text[:60]}' is no date and time",
            "An instant is a date by ISO 8601 (00:00, or a time with or without an offset), a time"
            " of yesterday, today or tomorrow, or a duration.",
            f"Add the time of that day: '{text.strip()} 00:00'."
            if is_day
            else "Write for example 2026-12-24T18:00+01:00, 18:30, yesterday 03:00 or 2h.",
        ) from None


def in_zone(written: WrittenTime, timezone: str | None, direction: int = -1) -> datetime:
    """The instant; without an offset it is local time in the zone (None: this machine's). A
    duration is so long ago, or with direction 1 from now.
    """
    try:
        zone = None if timezone is None else load_zone(timezone)
        return written.at(datetime.now(UTC), zone, direction)
    except OverflowError:
        raise InvalidInput(
            "an instant is outside of the calendar",
            "The years are 1 to 9999.",
            "Write a shorter duration.",
        ) from None


async def in_zone_of(
    session: Session, schedule: str, written: WrittenTime, direction: int = -1
) -> datetime:
    """As `in_zone`, in the schedule's zone. NotFound."""
    found = await session.call(overview.schedule, schedule)
    return in_zone(written, found["timezone"], direction)


def instant(option: str, text: str, direction: int = -1) -> datetime:
    """An aware datetime, read as by `local_instant`; a time of a day is one of this machine."""
    written = local_instant(option, text)
    if isinstance(written.value, datetime) and written.value.tzinfo is None:
        raise InvalidInput(
            f"{option} '{text[:60]}' has no offset",
            "The same wall time is another instant elsewhere.",
            f"Write {text[:60]}{'' if len(text) > 10 else 'T00:00'}Z for UTC, or an offset such as"
            " +01:00.",
        )
    return in_zone(written, None, direction)


def unreadable(what: str, error: Exception) -> InvalidInput:
    """The error for a file, or a line of it, that is no text."""
    return InvalidInput(f"{what} can't be read", f"{error}.", "Write the file as UTF-8 text.")


class Rate(NamedTuple):
    """At most `rate` runs in any time `per`; None and None: no limit."""

    rate: int | None = None
    per: timedelta | None = None

    def words(self) -> str:
        """What a confirmation adds for it."""
        return f", and at most {self.rate} start in any {shown(self.per)}" if self.per else ""


def rate(option: str, text: str) -> Rate:
    """A rate such as ``10/1m``."""
    count, _, per = text.partition("/")
    if not count.isdecimal() or len(count) > 9 or not per:
        raise InvalidInput(
            f"{option} '{text[:60]}' is not a rate",
            "A rate is a number of runs and a duration: COUNT/DURATION.",
            "Write for example 10/1m.",
        )
    return Rate(int(count), checks.duration(option, per.strip()))


class ReadBy(click.ParamType[Any]):
    """Reads a word by functions of the name of the option or argument, and the word: the first one
    that does not raise InvalidInput.
    """

    def __init__(self, name: str, *read: Callable[[str, str], object]) -> None:
        self.name = name
        self._read = read

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> object:
        """The value; a default may be one already."""
        if not isinstance(value, str) or parameter is None:
            return value
        is_option = isinstance(parameter, click.Option)
        name = parameter.opts[0] if is_option else parameter.human_readable_name
        *others, last = self._read
        for read in others:
            with suppress(InvalidInput):
                return read(name, value.strip())
        return last(name, value.strip())


DURATION: Final = ReadBy("duration", checks.duration)
INSTANT: Final = ReadBy("instant", instant)
LOCAL_INSTANT: Final = ReadBy("instant", local_instant)
RATE: Final = ReadBy("count/duration", rate)


class JsonCommand(click.Command):
    """A command with ``--json``. An async function gets a session as its first argument."""

    def __init__(self, *, callback: Any, **options: Any) -> None:
        run = with_session(callback) if iscoroutinefunction(callback) else callback
        super().__init__(callback=run, **options)
        flag("--json", "One JSON object a line.", expose_value=False, callback=choose_json)(self)


class JsonGroup(click.Group):
    """A group of such commands; its name alone, or with options, is its command ``list``."""

    command_class = JsonCommand

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it, with ``list`` where no command is named; options may stand before a
        command's name, too.
        """
        options = (each for command in self.commands.values() for each in command.params)
        valued = (each for each in options if isinstance(each, click.Option) and not each.is_flag)
        with_value = {name for each in valued for name in each.opts}
        for place, (before, word) in enumerate(pairwise(["", *args])):
            if word in self.commands and before not in with_value:
                args = [word, *args[:place], *args[place + 1 :]]
                break
        is_bare = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        # A shell that completes the noun asks for all its commands.
        if is_bare and "list" in self.commands and not ctx.resilient_parsing:
            args = ["list", *args]
        return super().parse_args(ctx, args)


def option(
    name: str, words: str, kind: Any = None, *, also: str = "", into: str = "", **more: Any
) -> Callable[[Any], Any]:
    """An option with a value: `click.option`, of which a default is shown.

    `name` is as the help shows it: ``--tz ZONE``. `kind` is what click takes, or a tuple of the
    words to choose from. `also` is another name, `into` the parameter that gets the value.
    """
    name, _, value = name.partition(" ")
    kind = click.Choice(kind) if isinstance(kind, tuple) else kind
    words = f"{words.removesuffix('.')}; may be repeated." if more.get("multiple") else words
    more = {"show_default": "default" in more, "metavar": value or None} | more
    return click.option(*filter(None, (name, also, into)), type=kind, help=words, **more)


def flag(name: str, words: str, into: str = "", **more: Any) -> Callable[[Any], Any]:
    """An option without a value."""
    return click.option(*filter(None, (name, into)), is_flag=True, help=words, **more)


def limit_option(default: int = 50) -> Callable[[Any], Any]:
    """``--limit N``: how many rows at most."""
    return option(
        "--limit", "How many rows at most.", click.IntRange(1, MOST_ROWS), default=default
    )


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """All these options, in this order."""

    def declare(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return declare


def args_option(words: str, **more: Any) -> Callable[[Any], Any]:
    """``--args JSON``, or ``--args @FILE`` for the JSON in a file; refused unless it is args."""
    return json_text_option("--args", words, checks.args_text, **more)


def json_value_option(name: str, words: str) -> Callable[[Any], Any]:
    """``NAME JSON``: a JSON value of any kind, kept as text. Refused if it is none."""

    def judge(text: str) -> None:
        checks.parsed_json(f"{name} ", text, f"Write for example {name} '{{\"day\": 1}}'.")

    return json_text_option(name, words, judge)


def json_text_option(
    name: str, words: str, judge: Callable[[str], object] | None = None, **more: Any
) -> Callable[[Any], Any]:
    """``NAME JSON``, or ``NAME @FILE``: the text, of which `judge` refuses what does not fit."""

    def read(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
        if text is not None and text.startswith("@"):
            from pgcron_ha.schedule_files.documents import read_text  # loads YAML

            text = read_text(Path(text[1:]))
        if text is not None and judge is not None:
            judge(text)
        return text

    words = f"{words} @FILE reads it."
    return option(name, words, metavar="JSON|@FILE", callback=read, **more)
