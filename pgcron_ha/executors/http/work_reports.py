"""Status reports of services about work that they have accepted, by polling or callback.

A report is a JSON object. A callback is checked when it arrives, so that the service learns at once
what is wrong with it.

``status`` is required; letter case, blanks, ``-`` and ``_`` are ignored:

- notStarted, accepted, pending, queued, running, inProgress, processing, progress: it goes on.
- succeeded, success, completed, done: it succeeded; ``result`` (any JSON, at most 256 KiB) is the
  run's result.
- failed, failure, error, cancelled, canceled: it has failed, for the reason in ``error`` (a text,
  or an object with ``message``); another attempt is made unless ``retry`` is false.
- retry: it asks for another attempt, whatever the run's policy says about causes.

``retry_after`` is the number of seconds before that attempt, at most a day. Each status may come
with ``progress`` (``{"done": 3, "total": 10, "note": "copying"}``) or ``percentComplete`` (0 to
100), and with ``log``: a text, or a list of at most 100, for the run's log. Other names are
ignored.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias

from pgcron_ha.db.commands.callbacks import End
from pgcron_ha.errors import InvalidInput, TooLarge
from pgcron_ha.executors.contract.failures import ASKED_TO_RETRY, bounded_text, outcome_of_result
from pgcron_ha.executors.contract.outcome import MAX_RESULT_BYTES, Failed, Succeeded
from pgcron_ha.executors.contract.progress import MOST_NOTE, checked
from pgcron_ha.harmless import storable
from pgcron_ha.model.json_values import read_json

Kind: TypeAlias = Literal["running"] | End

PATH: Final = "/callback/runs/{run}/{fence}"
"""Of the address that services get, behind ``web.public_url``."""

_RUNNING: Final = (
    *("notstarted", "accepted", "pending", "queued"),
    *("running", "inprogress", "processing", "progress"),
)
_KINDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(_RUNNING, "running"),
    **dict.fromkeys(("succeeded", "success", "completed", "done"), "succeeded"),
    **dict.fromkeys(("failed", "failure", "error", "cancelled", "canceled"), "failed"),
    "retry": "retry",
}

MAX_BODY_BYTES: Final = MAX_RESULT_BYTES + 64 * 1024
"""Of one callback: a whole result, and what else it may say."""

MAX_LINES: Final = 100
"""Lines of one callback, or of an answer that is text, that are kept in the run's log."""

MAX_LINE_CHARACTERS: Final = 8192
MAX_RETRY_AFTER_SECONDS: Final = 86_400.0
"""The longest pause that a service may ask for: a day."""


def work_status_of(document: Any) -> tuple[Kind | None, str]:
    """What an object with ``status`` says of the work, None for any other document or status; and
    how the work ended, with the service's reason for a failure.
    """
    known: dict[str, Any] = document if isinstance(document, dict) else {}
    status, error = known.get("status"), known.get("error")
    word = re.sub("[ _-]", "", status).lower() if isinstance(status, str) else ""
    if isinstance(error, dict):
        error = error.get("message", error)
    reason = error if isinstance(error, str) else json.dumps(error)
    ended = f"the work has ended: {word}" + (f" ({reason})" if error is not None else "")
    kind = _KINDS.get(word)
    if kind == "failed" and known.get("retry") is False:
        kind = "discarded"
    return kind, bounded_text(ended)


def failure_of(end: End, error: str, retry_after: float | None) -> Failed:
    """The outcome of work that has not succeeded; the delay is in seconds."""
    asks = end == "retry"
    return Failed(
        "Retry" if asks else "OperationFailed",
        error,
        retry=end != "discarded",
        after=None if retry_after is None else timedelta(seconds=retry_after),
        causes=(ASKED_TO_RETRY,) if asks else (),
    )


def percent_of(document: dict[str, Any]) -> float | None:
    """Its ``percentComplete``, if that is a number."""
    return _number(document.get("percentComplete"), 100.0)


def delay_of(document: dict[str, Any]) -> float | None:
    """Its ``retry_after``, if that is a number."""
    return _number(document.get("retry_after"), MAX_RETRY_AFTER_SECONDS)


def read_callback(body: bytes) -> dict[str, Any]:
    """The report in a body, as `pgcron_ha.db.commands.callbacks.answer_callback` takes it. Raises
    `InvalidInput`, or `TooLarge` for a result over its bound.
    """
    try:
        document = read_json(body.decode("utf-8-sig"))
    except (ValueError, RecursionError) as unreadable:
        raise InvalidInput(
            "the body is no JSON", str(unreadable)[:200], 'Send {"status": "succeeded"}.'
        ) from None
    if not isinstance(document, dict):
        raise InvalidInput(
            "the body is no JSON object", "It reports the state of the work.", 'Send {"status": …}.'
        )
    kind, error = work_status_of(document)
    if kind is None:
        raise InvalidInput(
            f"the status is {json.dumps(document.get('status'))[:100]}",
            "A status is one of succeeded, failed, retry and progress, or a synonym.",
            'Send {"status": "succeeded"}.',
        )
    has_failed = kind not in ("running", "succeeded")
    done, total, note = _progress(document)
    return {
        "status": None if kind == "running" else kind,
        "result": _result(document) if kind == "succeeded" else None,
        "error": error if has_failed else None,
        "retry_after": _retry_after(document) if has_failed else None,
        "done": done,
        "total": total,
        "note": note,
        "lines": _lines(document.get("log", [])),
    }


def _result(document: dict[str, Any]) -> str | None:
    outcome = outcome_of_result(document.get("result"))
    if isinstance(outcome, Succeeded):
        return outcome.text
    kind = TooLarge if outcome.error_class == "TooLarge" else InvalidInput
    raise kind(
        "the result can't be kept",
        outcome.message.replace("the handler returned", "it has"),
        "Keep it where it belongs, and give its address as the result.",
    )


def _retry_after(document: dict[str, Any]) -> float | None:
    given, seconds = document.get("retry_after"), delay_of(document)
    if given is not None and seconds is None:
        raise InvalidInput(
            f"retry_after is {json.dumps(given)[:100]}",
            "It is a number of seconds from 0 on.",
            "Leave it out for the delay of the run's policy.",
        )
    return seconds


def _progress(document: dict[str, Any]) -> tuple[float | None, float | None, str | None]:
    """Done, total and note; a report that makes no sense is passed over, as everywhere."""
    percent, reported = percent_of(document), document.get("progress")
    if not isinstance(reported, dict):
        reported = {}
    done = _number(reported.get("done"))
    if done is None:
        return percent, None if percent is None else 100.0, None
    note = reported.get("note")
    text = storable(note, 4 * MOST_NOTE) if isinstance(note, str) else None
    return done, _number(reported.get("total")) or None, text


def _lines(reported: Any) -> tuple[str, ...]:
    texts = reported if isinstance(reported, list) else [reported]
    if not all(isinstance(text, str) for text in texts):
        raise InvalidInput(
            "log is neither a text nor a list of texts", None, 'Send {"log": ["first", "second"]}.'
        )
    kept = first_lines([line for text in texts for line in text.splitlines()], "callback")
    return tuple(storable(line, MAX_LINE_CHARACTERS) for line in kept)


def first_lines(lines: list[str], whose: str) -> list[str]:
    """At most `MAX_LINES`, and one that counts the others."""
    more = len(lines) - MAX_LINES
    last = [f"{more} more lines of the {whose} are not kept"] if more > 0 else []
    return lines[:MAX_LINES] + last


def _number(value: Any, most: float = math.inf) -> float | None:
    """At most so much; None for what is no number from 0 on."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    found = checked(value, None, None) if is_number else None
    return None if found is None else min(found.done, most)
