"""The options of ``schedules put``: one for each policy that a schedule has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from pgcron_ha.cli import arguments

Command = TypeVar("Command", bound=Callable[..., Any])

_DURATIONS = (
    "catchup_window",
    "start_deadline",
    "probe_after",
    "timeout",
    "retry_base",
    "retry_cap",
    "give_up_after",
    "silence_timeout",
    "jitter",
    "spread_window",
)

_OPTIONS = (
    arguments.args_option("A JSON object of arguments."),
    click.option("--tz", "--timezone", "timezone", metavar="ZONE", help="An IANA time zone."),
    click.option("--dst", metavar="POLICY", help="vixie, robfig or skip."),
    click.option("--queue", help="Which nodes may take its runs."),
    click.option("--priority", type=int, help="0 is first, 9 last."),
    click.option("--enabled/--paused", "enabled", default=None, help="Whether it fires."),
    click.option("--overlap", metavar="POLICY", help="skip, allow, queue, replace or terminate."),
    click.option("--catchup", metavar="POLICY", help="latest, latest N, all or none."),
    click.option("--catchup-window", metavar="DURATION", help="How old a late fire may be."),
    click.option("--after-pause", metavar="WHAT", help="drop what a pause held back, or catchup."),
    click.option("--pause-after-failures", type=int, help="Pause it after so many; 0: never."),
    click.option("--probe-after", metavar="DURATION", help="Then let a fire through as a probe."),
    click.option("--start-deadline", metavar="DURATION", help="Expire what has not begun then."),
    click.option("--timeout", metavar="DURATION", help="Stop a run after so long."),
    click.option("--give-up-after", metavar="DURATION", help="Give a run up, retries and all."),
    click.option("--silence-timeout", metavar="DURATION", help="Stop a run silent for so long."),
    click.option("--max-attempts", type=int, help="How often a run is tried."),
    click.option("--retry-base", metavar="DURATION", help="The first retry waits up to this."),
    click.option("--retry-cap", metavar="DURATION", help="No retry waits longer."),
    arguments.retry_option(),
    click.option("--delivery", metavar="HOW", help="at_least_once, at_most_once or transactional."),
    click.option("--lane", help="A key: so many runs with it execute at once; empty: none."),
    arguments.requires_option(),
    click.option(
        "--jitter", metavar="DURATION", help="Delay each fire by up to so long; 0s: none."
    ),
    click.option("--spread-window", metavar="DURATION", help="Delay all fires alike within it."),
    click.option(
        "--depends-on-previous/--independent",
        "depends_on_previous",
        default=None,
        help="Not while the fire before it has failed.",
    ),
    click.option("--max-runs", type=int, help="End after so many runs; 0: never."),
    click.option("--weight", type=int, help="So many slots of its node a run takes."),
    click.option("--managed-by", metavar="DOOR", help="Whose it is: cli, code, file, sql or ui."),
    click.option("--max-running", type=int, help="So many runs at once; 0: as if unsaid."),
    click.option("--max-queued", type=int, help="So many may wait (overlap queue)."),
    click.option("--queue-drops", metavar="WHICH", help="A full queue drops its newest or oldest."),
)


def policy_options(command: Command) -> Command:
    """Declare them all."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def policies_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The policies that were given, durations read; raises InvalidInput."""
    given = {name: value for name, value in options.items() if value is not None}
    for name in _DURATIONS:
        if name in given:
            given[name] = arguments.duration(f"--{name.replace('_', '-')}", given[name])
    return given
