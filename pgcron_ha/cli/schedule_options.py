"""The options of ``schedules put``: one for each policy that a schedule has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from pgcron_ha.cli import arguments

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    arguments.args_option("A JSON object of arguments."),
    click.option("--tz", "--timezone", "timezone", metavar="ZONE", help="An IANA time zone."),
    click.option("--dst", metavar="POLICY", help="vixie, robfig or skip."),
    click.option("--queue", help="Which nodes may take its runs."),
    click.option("--priority", type=int, help="0 is first, 9 last."),
    click.option("--enabled/--paused", "enabled", default=None, help="Whether it fires."),
    click.option("--overlap", metavar="POLICY", help="skip, allow, queue, replace or terminate."),
    click.option("--catchup", metavar="POLICY", help="latest, latest N, all or none."),
    click.option("--catchup-window", type=arguments.DURATION, help="How old a late fire may be."),
    click.option("--after-pause", metavar="WHAT", help="drop what a pause held back, or catchup."),
    click.option("--pause-after-failures", type=int, help="Pause it after so many; 0: never."),
    click.option(
        "--probe-after", type=arguments.DURATION, help="Then let a fire through as a probe."
    ),
    click.option(
        "--start-deadline",
        type=arguments.DURATION,
        help="A run that has not started by then expires.",
    ),
    click.option("--timeout", type=arguments.DURATION, help="Maximum duration of an attempt."),
    click.option(
        "--give-up-after", type=arguments.DURATION, help="Maximum age of a run, retries included."
    ),
    click.option(
        "--silence-timeout",
        type=arguments.DURATION,
        help="Stop a run that reports nothing for this long.",
    ),
    click.option("--max-attempts", type=int, help="Maximum attempts."),
    click.option(
        "--retry-base", type=arguments.DURATION, help="Longest wait before the first retry."
    ),
    click.option("--retry-cap", type=arguments.DURATION, help="Longest wait before any retry."),
    arguments.retry_option,
    click.option("--delivery", metavar="HOW", help="at_least_once, at_most_once or transactional."),
    click.option(
        "--concurrency-key", help="Concurrency key: limits the runs that have it; empty removes it."
    ),
    arguments.requires_option,
    click.option(
        "--jitter",
        type=arguments.DURATION,
        help="Delay all fires by one amount within it; 0s: none.",
    ),
    click.option(
        "--depends-on-previous/--independent",
        "depends_on_previous",
        default=None,
        help="Wait until the previous fire has succeeded.",
    ),
    click.option("--max-runs", type=int, help="End after this many runs; 0: never."),
    click.option("--weight", type=int, help="Slots that a run takes of its node."),
    click.option(
        "--managed-by", metavar="INTERFACE", help="What manages it: cli, code, file, sql or ui."
    ),
    click.option("--max-running", type=int, help="Maximum concurrent runs; 0 removes the limit."),
    click.option("--max-queued", type=int, help="Maximum runs that wait (overlap queue)."),
    click.option(
        "--queue-drops", metavar="WHICH", help="Which run a full queue drops: newest or oldest."
    ),
)


def policy_options(command: Command) -> Command:
    """Declare them all."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
