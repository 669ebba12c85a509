"""The options of ``enqueue``, ``workflows start`` and ``schedules put``: what is said of one run,
or of a schedule's.
"""

from __future__ import annotations

from typing import Any, Final

import click

from pgcron_ha.cli.arguments import json_text_option, option, together

# Durations are texts here: they are read with the other options, so that all mistakes are reported
# at once.


def _labels(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> list[str] | None:
    """None: not given; an empty one alone is a list of none."""
    return [word for word in words if word] if words else None


def _links(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> dict[str, str] | None:
    """As `_labels`, of titles and addresses."""
    parts = [word.partition("=") for word in words if word]
    return {title: address for title, _, address in parts} if words else None


timezone_option = option("--timezone ZONE", "An IANA time zone.", also="--tz")
_SEVERAL: Final[dict[str, Any]] = {"multiple": True, "callback": _labels}

_PLACE = together(
    option("--queue", "The queue, which decides which nodes may run it. Default: default."),
    option("--priority", "0 runs first, 9 last. Default: 5.", int),
)
_CONCURRENCY_KEY = option("--concurrency-key", "Concurrency key: limits the runs that have it.")
_TAG = option("--tag", "A word to find it by.", into="tags", **_SEVERAL)
_GIVE_UP = option("--give-up-after DURATION", "Maximum age of a run, retries included.")
_OF_BOTH = together(
    _PLACE,
    option("--timeout DURATION", "Maximum duration of an attempt. Default: 1h."),
    _GIVE_UP,
    option("--silence-timeout DURATION", "Stop a run that reports nothing for this long."),
    option("--max-attempts", "Maximum attempts. Default: 5.", int),
    option("--retry JSON", 'Retries: {"backoff": "linear", "retry_for": "2h"}.'),
    option("--delivery", "at_least_once (the default), at_most_once or transactional."),
    _CONCURRENCY_KEY,
    option(
        "--requires LABEL", "Only nodes with this label (gpu=a100, or gpu for any).", **_SEVERAL
    ),
    option("--weight", "Slots that a run takes of its node. Default: 1.", int),
    _TAG,
)

label_filters = together(
    option("--owner", "Those of this owner: the schedule's, else the team of the queue."),
    option("--tag", "Those with this tag.", into="tags", **_SEVERAL),
)
_NEW = together(
    json_text_option("--args", "A JSON object of arguments."),
    option("--due-at INSTANT", "Do not start before: 2h (from now), 18:30, ISO.", into="due_at"),
    option("--idempotency-key", "For a day the same key returns the same run."),
    option("--start-within DURATION", "The run expires if it has not started by then."),
)
_UNIQUE = together(
    option("--unique-key", "Deduplication key: one open run of the handler has it."),
    option("--unique-scope", "How long the key holds: open (until the run ends) or waiting."),
    option("--unique-for DURATION", "At most one run in this time, ended or not."),
    option("--on-conflict", "return its id (the default), replace its args, or refuse."),
    option("--debounce DURATION", "Start this long after the last call with the key."),
    option("--debounce-max DURATION", "Start at most this long after the first one."),
)
run_options = together(_NEW, _OF_BOTH, _UNIQUE)
_IN_ALL = option("--timeout DURATION", "Maximum duration of all of it. Default: the workflow's.")
start_options = together(_NEW, _PLACE, _IN_ALL, _GIVE_UP, _CONCURRENCY_KEY, _TAG, _UNIQUE)
policy_options = together(
    json_text_option("--args", "A JSON object of arguments."),
    timezone_option,
    option("--dst POLICY", "vixie, robfig or skip."),
    click.option("--enabled/--paused", "enabled", default=None, help="Whether it fires."),
    option("--overlap POLICY", "skip, allow, queue, replace or terminate."),
    option("--catchup POLICY", "latest, latest N, all or none."),
    option("--catchup-window DURATION", "How old a late fire may be."),
    option("--after-pause WHAT", "drop what a pause held back, or catchup."),
    option("--pause-after-failures", "Pause it after this many failures in a row; 0: never.", int),
    option(
        "--probe-after DURATION",
        "End the next such pause after this time; each failure doubles it.",
    ),
    option("--start-deadline DURATION", "A run that has not started by then expires."),
    _OF_BOTH,
    option("--jitter DURATION", "Delay all fires by one amount within it; 0s: none."),
    click.option(
        "--depends-on-previous/--independent",
        default=None,
        help="Wait until the previous fire has succeeded.",
    ),
    option("--max-runs", "End after this many runs; 0: never.", int),
    option("--owner", "The team or person that it belongs to."),
    option("--description", "What it is for."),
    option(
        "--link TITLE=URL",
        "A page about it, such as its runbook.",
        into="links",
        multiple=True,
        callback=_links,
    ),
    option("--managed-by INTERFACE", "What manages it: cli, code, file, sql or ui."),
    option("--max-running", "Maximum concurrent runs; 0 removes the limit.", int),
    option("--max-queued", "Maximum runs that wait (overlap queue).", int),
    option("--queue-drops WHICH", "Which run a full queue drops: newest or oldest."),
)
