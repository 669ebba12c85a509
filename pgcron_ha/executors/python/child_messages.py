"""Messages between a node and one of its child processes: JSON, one message a line.

To the child: ``open`` (once), ``run``, ``stop``, ``lease``; the end of the stream ends it. From the
child: ``ready`` (with the bytes that it holds) or ``failed``, then ``begun``, ``line``,
``progress``, ``beat`` and ``ended`` (with the bytes that it holds, how many processes the run has
started and ``left``, and how many lines were ``dropped``). What comes from a child is checked:
code of its handler may have written it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from pgcron_ha.executors.contract.attempt import StopReason
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.outcome import SUCCEEDED, Failed, Interrupted, Outcome, Succeeded

_OF_A_CONTEXT: Final = tuple(inspect.signature(Context).parameters)


def context_members(context: Context) -> dict[str, Any]:
    """A context as JSON values, with texts for ids and instants."""
    members = {name: getattr(context, name) for name in _OF_A_CONTEXT}
    return {
        name: str(value) if isinstance(value, UUID | datetime) else value
        for name, value in members.items()
    }


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
    if isinstance(outcome, Succeeded):
        return {"text": outcome.text}
    members = dataclasses.asdict(outcome)
    if isinstance(outcome, Failed) and outcome.after is not None:
        members["after"] = outcome.after.total_seconds()
    return members


def outcome_from(members: dict[str, Any]) -> Outcome:
    """The outcome that `outcome_members` wrote. Raises what its members raise if it is none."""
    if "text" in members:
        text = members["text"]
        return SUCCEEDED if text is None else Succeeded(json.loads(text))
    if "reason" in members:
        return Interrupted(StopReason(members["reason"]), str(members["message"]))
    after, causes = members["after"], members["causes"]
    read = {
        "after": None if after is None else timedelta(seconds=after),
        "causes": tuple(map(str, causes)),
    }
    return Failed(**members | read)
