"""``pgcron-ha lanes``: list, set and delete what lanes may run at once."""

from __future__ import annotations

from datetime import timedelta

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import Column, echo, json_option, limit_option, print_json, print_rows
from pgcron_ha.cli.session import on_database
from pgcron_ha.db.commands import queues as queue_interfaces
from pgcron_ha.db.queries import overview

COLUMNS = (
    Column("LANE", "lane", 32),
    Column("SLOTS", "slots"),
    Column("RATE", "rate"),
    Column("PER", "per"),
    Column("RUNNING", "running"),
    Column("SET BY", "set_by", 16),
    Column("SET AT", "set_at"),
)
NO_LIMIT = "none"


def slots_option(words: str, text: str) -> int | None:
    """A number of at least one, or ``none`` for no limit; `words` name the option."""
    if text == NO_LIMIT:
        return None
    if not text.isdecimal() or not 0 < int(text) <= 1_000_000_000:
        raise click.UsageError(f"{words} is a number from 1, or '{NO_LIMIT}': not '{text[:40]}'")
    return int(text)


def rate_option(text: str | None) -> tuple[int | None, timedelta | None]:
    """A rate such as ``10/1m``: starts, and in which time; raises InvalidInput."""
    if text is None:
        return None, None
    starts, _, per = text.partition("/")
    if not starts.isdecimal() or len(starts) > 9 or not per:
        raise click.UsageError(
            f"--rate is written COUNT/DURATION, such as 10/1m: not '{text[:40]}'"
        )
    return int(starts), arguments.duration("--rate", per)


def rate_in_words(text: str | None) -> str:
    """What a confirmation adds for a rate as `rate_option` read it."""
    if text is None:
        return ""
    starts, _, per = text.partition("/")
    return f", and at most {starts} start in any {per}"


@click.group("lanes")
def lanes_group() -> None:
    """Say how many runs of a lane execute at once."""


@lanes_group.command("list")
@limit_option()
@json_option
def list_command(limit: int, as_json: bool) -> None:
    """List lanes that have settings or running runs. A lane without a setting has one slot."""
    rows = on_database(lambda s: overview.lanes(s.connection, limit=limit, schema=s.schema))
    print_rows(rows, COLUMNS, as_json, "no lanes")


@lanes_group.command("set")
@click.argument("lane")
@click.argument("slots")
@click.option("--rate", metavar="COUNT/DURATION", help="So many start in any such time: 10/1m.")
@json_option
def set_command(lane: str, slots: str, rate: str | None, as_json: bool) -> None:
    """Let SLOTS runs of LANE execute at once ("none": no limit).

    A LANE that ends with a star is for all lanes that begin so and have no setting of their own;
    "*" is for all the others.
    """
    count = slots_option("SLOTS", slots)
    starts, per = rate_option(rate)
    on_database(
        lambda s: queue_interfaces.set_lane(
            s.connection, lane, count, rate=starts, per=per, actor=s.actor, schema=s.schema
        )
    )
    if as_json:
        print_json({"lane": lane, "slots": count, "rate": starts, "per": per})
    else:
        slots_now = {None: "any number of slots", 1: "1 slot"}.get(count, f"{count} slots")
        echo(f"lane '{lane}' has {slots_now}{rate_in_words(rate)}")


@lanes_group.command("delete")
@click.argument("lane")
@json_option
def delete_command(lane: str, as_json: bool) -> None:
    """Delete what was set for LANE."""
    on_database(lambda s: queue_interfaces.delete_lane(s.connection, lane, schema=s.schema))
    if as_json:
        print_json({"lane": lane, "is_set": False})
    else:
        echo(f"lane '{lane}' has no setting of its own")
