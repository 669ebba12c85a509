"""One run, fire or step in words: its state in a word, and in a sentence with the reason. The same
everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

from pgcron_ha.model.formats import (
    capital,
    duration,
    expected_about,
    short,
    state_words,
    who_and_why,
)

Row: TypeAlias = Mapping[str, Any]

OPEN_STEPS: Final = ("waiting", "ready", "running")
"""States of a step that is not over."""

_CODE: Final = re.compile("[a-z_]+")


def reason_words(
    reason: str | None, meaning: str | None = None, note: str | None = None
) -> str | None:
    """Why a fire became no run: a stored sentence, or what a stored code means; and its note."""
    if reason is None:
        return None
    known, separator, rest = reason.partition(": ")
    words = (meaning or known.replace("_", " ")).rstrip(".") if _CODE.fullmatch(known) else known
    return who_and_why(f"{words}{separator}{rest}", note)


def ledger_line(fire: Row, now: datetime) -> dict[str, Any]:
    """A row of the ledger in words: why, or what its run waits for, and what came of that (None:
    unknown).
    """
    state = fire["run_state"]
    word = None if state is None else run_word({**fire, "state": state}, now)
    because = fire["cancel_reason"] if word == "cancelled" else fire["waits_detail"]
    reason = reason_words(fire["reason"], fire["meaning"], fire["note"]) or because
    return {**fire, "run_state": word, "reason": reason}


def run_word(run: Row, now: datetime) -> str:
    """Its state or outcome; a waiting run is scheduled, retrying, snoozed, blocked or ready.

    Snoozed only where ``is_snoozed`` was found out.
    """
    state: str = run["state"]
    if state not in ("ready", "blocked"):
        return state
    if run["due_at"] > now and not run["attempt"]:
        return "scheduled"
    if state == "ready" and run["attempt"]:
        return "snoozed" if run.get("is_snoozed") else "retrying"
    return state


def run_sentence(run: Row, letter: Row | None, now: datetime) -> str:
    """What happened to it, or what it waits for."""
    word = run_word(run, now)
    if word == "running":
        return _running(run, now)
    if run["finished_at"] is None:
        return _waiting(run, word, now)
    return _ended(run, letter)


def _running(run: Row, now: datetime) -> str:
    which = f"Attempt {run['attempt']} of {run['max_attempts']}"
    where = f"on {run['node']}" if run["node"] else "on a node that is gone"
    if run["started_at"] is None:
        text = f"{which} is claimed {where} for {_since(run['claimed_at'], now)}"
    else:
        text = f"{which} executes {where} for {_since(run['started_at'], now)}"
        taken = (now - run["started_at"]).total_seconds()
        if run["timeout"] is not None and taken > run["timeout"]:
            text += f", beyond its timeout of {duration(run['timeout'])}"
        elif run.get("expected") is not None:
            text += f"; it overruns: {expected_about(run['expected'])}"
    if run["cancel_at"] is not None:
        text += f". Its node was asked to stop it {_since(run['cancel_at'], now)} ago"
        if run["kill_at"] is not None:
            text += f", and to end it by force {_since(run['kill_at'], now)} ago"
        else:
            text += "; what does not stop is killed after its grace, default 10 s"
    elif not run["has_lease"]:
        text += ". That node's lease is over: another node ends this attempt"
    return f"{text}."


def _waiting(run: Row, word: str, now: datetime) -> str:
    due_in = (run["due_at"] - now).total_seconds()
    tried = ""
    if word == "retrying":
        error = short(run["error"] or "it did not succeed", 90)
        tried = f"Attempt {run['attempt']} of {run['max_attempts']} failed: {error}. "
    elif word == "snoozed":
        said = short(run["error"] or "it gave no reason", 90)
        tried = f"Attempt {run['attempt']} put itself off, which uses up none: {said}. "
    if due_in > 0:
        what = "The next begins" if tried else "It is due"
        return f"{tried}{what} in {duration(due_in)}, if nothing holds it up."
    why = run["waits_detail"] or "it waits for a free slot"  # it became due meanwhile
    return f"{tried}It has been due for {duration(due_in)}: {why}."


def _ended(run: Row, letter: Row | None) -> str:
    state, attempt, most = run["state"], run["attempt"], run["max_attempts"]
    error = short(run["error"], 160) if run["error"] else None
    if state == "succeeded":
        return "Done." if attempt == 1 else f"Done at attempt {attempt} of {most}."
    if state == "dead":
        left = "" if attempt >= most else ", and its error said not to try again"
        became = _what_became(letter)
        return f"Gave up after attempt {attempt} of {most}{left}: {error or 'no error'}.{became}"
    if state == "lost":
        return (
            "Its node died while it executed, and it may be executed at most once: "
            f"nobody knows whether it took effect.{_what_became(letter)}"
        )
    reason = short(run["cancel_reason"], 160) if run["cancel_reason"] else error
    return f"{capital(reason or 'no reason was kept')}."


def _what_became(letter: Row | None) -> str:
    if letter is None or letter["closed_at"] is None:
        return ""
    if letter["redriven_as"] is not None:
        return f" Redriven as run {letter['redriven_as']}."
    why = f": {short(letter['note'], 160)}" if letter["note"] else "."
    return f" Archived by {short(letter['closed_by'], 40)}{why}"


def _since(instant: datetime, now: datetime) -> str:
    return duration((now - instant).total_seconds())


def step_sentence(step: Row) -> str:
    """What an open step waits for, or how it ended; ``waits_detail`` and ``reason`` may be None."""
    state, reason = step["state"], step["reason"]
    if state not in OPEN_STEPS:
        ended = f"it has ended: {state_words(state)}"
        return f"{ended} ({reason})" if reason else ended
    if step["waits_detail"]:
        return str(step["waits_detail"])
    if state == "running" and step["step_run"] is not None:
        return f"run {step['step_run']} executes"
    return str(reason or state)
