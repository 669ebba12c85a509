"""What a node and a child process of its say to each other: JSON, one message a line.

To the child: ``open`` (once), ``run``, ``stop``, ``lease``; the end of the stream ends it. From the
child: ``ready`` (with the bytes that it holds) or ``failed``, then ``begun``, ``line``,
``progress``, ``beat`` and ``ended`` (with the bytes that it holds, how many processes the run has
started and ``left``, and how many lines were ``dropped``). What comes from a child is judged: its
handler's code may have written it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from pgcron_ha.executors.contract.attempt import StopReason
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.outcome import SUCCEEDED, Outcome, Succeeded
from pgcron_ha.executors.process.conversation import BadMessage

_OUTCOMES: Final = {kind.__name__: kind for kind in typing.get_args(Outcome)}
_OF_A_CONTEXT: Final = tuple(inspect.signature(Context).parameters)


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
                given[name] = tuple(map(str, value))
        if "reason" in given:
            given["reason"] = StopReason(given["reason"])
        if kind is Succeeded:
            text = given["text"]
            return SUCCEEDED if text is None else Succeeded(json.loads(text))
        outcome: Outcome = kind(**given)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise BadMessage(f"an outcome that is none: {error!r}") from None
    return outcome
