"""Words of the command line to values; what can't be read is `InvalidInput` with a hint."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

import click

from pgcron_ha.cli.session import Session
from pgcron_ha.config.values import parse_duration
from pgcron_ha.db.queries import overview
from pgcron_ha.errors import InvalidInput
from pgcron_ha.spec.cron.fires import load_zone

Command = TypeVar("Command", bound=Callable[..., Any])

# Args have 256 KiB at most; what is more is refused in words that say so.
MOST_BYTES_OF_A_FILE: Final = 512 * 1024


class _RunId(click.IntRange):
    # What click calls it when it refuses a word.
    name = "run id"


RUN_ID = _RunId(1, 2**63 - 1)


def instant(option: str, text: str | None, zone: ZoneInfo | None = None) -> datetime | None:
    """An aware datetime from ISO 8601; without an offset it is local time in `zone`, if given."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInput(
            f"{option} '{text[:60]}' is not an ISO 8601 date and time",
            "An instant has a date, a time and an offset.",
            "Write for example 2026-12-24T18:00:00Z or 2026-12-24T18:00+01:00.",
        ) from None
    if found.tzinfo is not None:
        return found
    if zone is None:
        raise InvalidInput(
            f"{option} '{text[:60]}' has no offset",
            "The same wall time is another instant elsewhere.",
            f"Write {text[:60]}Z for UTC, or an offset such as +01:00.",
        )
    return found.replace(tzinfo=zone)


def duration(option: str, text: str | None) -> timedelta | None:
    """A duration such as ``90s``, ``15m`` or ``1h30m``."""
    if text is None:
        return None
    try:
        return timedelta(seconds=parse_duration(text.strip()))
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{option} '{text[:60]}' is not a duration",
            "A duration is positive and says its unit: ms, s, m, h, d, w.",
            "Write for example 90s, 15m or 1h30m.",
        ) from None


def duration_or_none(text: str | None) -> timedelta | None:
    """What `duration` reads; None for what is none, which may be an instant."""
    try:
        return duration("", text)
    except InvalidInput:
        return None


async def instant_of_schedule(option: str, text: str, name: str, session: Session) -> datetime:
    """An aware datetime from ISO 8601; without an offset it is local time in the schedule's zone.

    NotFound, InvalidInput.
    """
    instant(option, text, load_zone("UTC"))  # what is no instant is told first
    found = await overview.schedule(session.connection, name, schema=session.schema)
    meant = instant(option, text, load_zone(found["timezone"]))
    assert meant is not None
    return meant


def args_option(words: str) -> Callable[[Command], Command]:
    """``--args JSON``, or ``--args @FILE`` for the JSON in a file."""
    return click.option(
        "--args", "args", metavar="JSON|@FILE", callback=_args, help=f"{words} @FILE reads it."
    )


def retry_option() -> Callable[[Command], Command]:
    """``--retry JSON``: a retry policy."""
    return click.option(
        "--retry",
        metavar="JSON",
        help='How it is retried: {"backoff": "linear", "retry_for": "2h"}.',
    )


def requires_option() -> Callable[[Command], Command]:
    """``--requires LABEL``, once for each."""
    return click.option(
        "--requires",
        multiple=True,
        metavar="LABEL",
        callback=_requires,
        help="Only nodes with this label (gpu=a100, or gpu for any); may be repeated.",
    )


def _requires(
    context: click.Context, parameter: click.Parameter, words: tuple[str, ...]
) -> list[str] | None:
    """None: not given; an empty one alone is a list of none."""
    return [word for word in words if word] if words else None


def _args(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    if text is None or not text.startswith("@"):
        return text
    path = Path(text[1:])
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES_OF_A_FILE).decode()
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"--args '{text[:200]}' can't be read",
            f"{error}.",
            "After @ comes the name of a file with a JSON object, in UTF-8.",
        ) from None
