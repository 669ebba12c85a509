"""What a node and a child process of its say to each other: JSON, one message a line.

To the child: ``open`` (once), ``run``, ``stop``, ``lease``; the end of the stream ends it. From the
child: ``ready`` or ``failed``, then ``begun``, ``line``, ``progress``, ``beat`` and ``ended``. What
comes from a child is judged: its handler's code may have written it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from pgcron_ha.executors.contract.attempt import StopReason, Stream
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.failures import (
    MAX_MESSAGE_CHARACTERS,
    MAX_TRACEBACK_CHARACTERS,
    bounded_text,
    success,
)
from pgcron_ha.executors.contract.outcome import MAX_RESULT_BYTES, Failed, Outcome, Succeeded
from pgcron_ha.executors.contract.progress import Progress
from pgcron_ha.executors.process.conversation import BadMessage

_OUTCOMES: Final = {kind.__name__: kind for kind in typing.get_args(Outcome)}
_OF_A_CONTEXT: Final = tuple(inspect.signature(Context).parameters)
_BOUNDS: Final = {"traceback": MAX_TRACEBACK_CHARACTERS, "error_class": 200, "fingerprint": 200}


class Heard(NamedTuple):
    """A message of a child, judged: ``event`` is ready, failed, begun, line, progress, beat
    or ended.

    ``resident`` are the bytes that the child holds, ``left`` counts the processes that the run has
    started and that still live, ``dropped`` the lines that it wrote and the child did not send.
    """

    event: str
    run: int = 0
    stream: Stream = "log"
    text: str = ""
    outcome: Outcome | None = None
    resident: int = 0
    left: int = 0
    dropped: int = 0
    progress: Progress | None = None

    def pass_on(self, context: Context) -> None:
        """A line, progress or a beat, to where the run's own go."""
        if self.event == "beat":
            context.beat()
            return
        if self.progress is not None:
            context.progress(*self.progress)
            return
        log = context._open_log()
        if log is not None:
            log.write_line(self.stream, self.text)


def heard(message: dict[str, Any]) -> Heard:
    """What a child says. Raises `BadMessage`."""
    try:
        event = message["event"]
        if event == "ready":
            return Heard(event, resident=int(message["resident"]))
        if event in ("begun", "beat"):
            return Heard(event, int(message["run"]))
        if event == "failed":
            return Heard(event, text=str(message["message"]))
        if event == "line" and message["stream"] in ("stdout", "stderr", "log"):
            return Heard(event, int(message["run"]), message["stream"], str(message["line"]))
        if event == "progress":
            total, note = message["total"], message["note"]
            reported = Progress(
                float(message["done"]),
                None if total is None else float(total),
                None if note is None else str(note),
            )
            return Heard(event, int(message["run"]), progress=reported)
        if event == "ended":
            return Heard(
                event,
                int(message["run"]),
                outcome=outcome_from(message["outcome"]),
                resident=int(message["resident"]),
                left=int(message["left"]),
                dropped=int(message["dropped"]),
            )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadMessage(f"{type(error).__name__} in {message!r:.200}") from None
    raise BadMessage(f"an event of no known kind: {message!r:.200}")


def context_members(context: Context) -> dict[str, Any]:
    """A context as JSON values."""
    members = {name: getattr(context, name) for name in _OF_A_CONTEXT}
    for name, value in members.items():
        if isinstance(value, UUID):
            members[name] = str(value)
        elif isinstance(value, datetime):
            members[name] = value.isoformat()
    return members


def context_from(members: dict[str, Any]) -> Context:
    """The context that `context_members` wrote."""
    fire_time = members["fire_time"]
    return Context(
        **members
        | {
            "run_uuid": UUID(members["run_uuid"]),
            "token": UUID(members["token"]),
            "fire_time": None if fire_time is None else datetime.fromisoformat(fire_time),
        }
    )


def outcome_members(outcome: Outcome) -> dict[str, Any]:
    """An outcome as JSON values."""
    members: dict[str, Any] = {"kind": type(outcome).__name__}
    for field in dataclasses.fields(outcome):
        value = getattr(outcome, field.name)
        members[field.name] = (
            {"seconds": value.total_seconds()} if isinstance(value, timedelta) else value
        )
    if isinstance(outcome, Succeeded):
        del members["result"]  # it is in the text
    return members


def outcome_from(members: Any) -> Outcome:
    """The outcome that `outcome_members` wrote. Raises `BadMessage`."""
    try:
        given = dict(members)
        kind = _OUTCOMES[given.pop("kind")]
        for name, value in given.items():
            if isinstance(value, dict):
                given[name] = timedelta(seconds=value["seconds"])
            elif isinstance(value, list):
                given[name] = tuple(value)
            elif isinstance(value, str) and name != "text":
                given[name] = bounded_text(value, _BOUNDS.get(name, MAX_MESSAGE_CHARACTERS))
        if "reason" in given:
            given["reason"] = StopReason(given["reason"])
        if kind is Succeeded:
            return _success(given["text"])
        outcome: Outcome = kind(**given)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise BadMessage(f"an outcome that is none: {error!r}") from None
    return outcome


def _success(text: str | None) -> Outcome:
    if text is None:
        return Succeeded()
    if len(text.encode()) > MAX_RESULT_BYTES:
        message = f"the result has more than {MAX_RESULT_BYTES} bytes"
        return Failed("TooLarge", message, retry=False)
    return success(json.loads(text), text)
