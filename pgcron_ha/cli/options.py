"""The options of ``enqueue`` and ``schedules put``: what is said of one run, or of a schedule's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from pgcron_ha.cli.arguments import DURATION, INSTANT, args_option, together


def _option(
    name: str, words: str, kind: Any = None, metavar: str | None = None
) -> Callable[[Any], Any]:
    return click.option(name, type=kind, metavar=metavar, help=words)


def _labels(
    context: click.Context, parameter: click.Parameter, words: tuple[str, ...]
) -> list[str] | None:
    """None: not given; an empty one alone is a list of none."""
    return [word for word in words if word] if words else None


_OF_BOTH = together(
    _option("--queue", "The queue, which decides which nodes may run it. Default: default."),
    _option("--priority", "0 runs first, 9 last. Default: 5.", int),
    _option("--timeout", "Maximum duration of an attempt. Default: 1h.", DURATION),
    _option("--give-up-after", "Maximum age of a run, retries included.", DURATION),
    _option("--silence-timeout", "Stop a run that reports nothing for this long.", DURATION),
    _option("--max-attempts", "Maximum attempts. Default: 5.", int),
    _option("--retry", 'Retries: {"backoff": "linear", "retry_for": "2h"}.', None, "JSON"),
    _option("--delivery", "at_least_once (the default), at_most_once or transactional."),
    _option("--concurrency-key", "Concurrency key: limits the runs that have it."),
    click.option(
        "--requires",
        multiple=True,
        metavar="LABEL",
        callback=_labels,
        help="Only nodes with this label (gpu=a100, or gpu for any); may be repeated.",
    ),
    _option("--weight", "Slots that a run takes of its node. Default: 1.", int),
)

run_options = together(
    args_option("A JSON object of arguments."),
    click.option(
        "--due", "due_at", type=INSTANT, help="Do not start before this instant. Default: now."
    ),
    _option("--key", "Idempotency key: for a day it returns the same run."),
    _option("--start-within", "The run expires if it has not started by then.", DURATION),
    _OF_BOTH,
    _option("--unique-key", "Deduplication key: one open run of HANDLER has it."),
    _option("--unique-scope", "How long the key holds: open (until the run ends) or waiting."),
    _option("--unique-for", "At most one run in this time, ended or not.", DURATION),
    _option("--on-conflict", "return its id (the default), replace its args, or refuse."),
    _option("--debounce", "Start this long after the last call with the key.", DURATION),
    _option("--debounce-max", "Start at most this long after the first one.", DURATION),
)
policy_options = together(
    args_option("A JSON object of arguments."),
    click.option("--tz", "--timezone", "timezone", metavar="ZONE", help="An IANA time zone."),
    _option("--dst", "vixie, robfig or skip.", None, "POLICY"),
    click.option("--enabled/--paused", "enabled", default=None, help="Whether it fires."),
    _option("--overlap", "skip, allow, queue, replace or terminate.", None, "POLICY"),
    _option("--catchup", "latest, latest N, all or none.", None, "POLICY"),
    _option("--catchup-window", "How old a late fire may be.", DURATION),
    _option("--after-pause", "drop what a pause held back, or catchup.", None, "WHAT"),
    _option("--pause-after-failures", "Pause it after so many; 0: never.", int),
    _option("--probe-after", "Then let a fire through as a probe.", DURATION),
    _option("--start-deadline", "A run that has not started by then expires.", DURATION),
    _OF_BOTH,
    _option("--retry-base", "Longest wait before the first retry.", DURATION),
    _option("--retry-cap", "Longest wait before any retry.", DURATION),
    _option("--jitter", "Delay all fires by one amount within it; 0s: none.", DURATION),
    click.option(
        "--depends-on-previous/--independent",
        "depends_on_previous",
        default=None,
        help="Wait until the previous fire has succeeded.",
    ),
    _option("--max-runs", "End after this many runs; 0: never.", int),
    _option("--managed-by", "What manages it: cli, code, file, sql or ui.", None, "INTERFACE"),
    _option("--max-running", "Maximum concurrent runs; 0 removes the limit.", int),
    _option("--max-queued", "Maximum runs that wait (overlap queue).", int),
    _option("--queue-drops", "Which run a full queue drops: newest or oldest.", None, "WHICH"),
)
