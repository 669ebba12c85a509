"""What is said about one run: its state in a word, and in a sentence with the reason."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pgcron_ha.web.formats import duration, short


def run_word(run: dict[str, Any], now: datetime) -> str:
    """Its state or outcome; a waiting run is parked, retrying, scheduled or ready."""
    state: str = run["state"]
    if state != "ready":
        return state
    if run["hold"]:
        return "parked"
    if run["attempt"]:
        return "retrying"
    return "scheduled" if run["due_at"] > now else "ready"


def run_sentence(
    run: dict[str, Any], waits: dict[str, Any] | None, letter: dict[str, Any] | None, now: datetime
) -> str:
    """What happened to it, or what it waits for."""
    word = run_word(run, now)
    if word == "running":
        return _running(run, now)
    if run["finished_at"] is None:
        return _waiting(run, waits or {}, word, now)
    return _ended(run, letter)


def _running(run: dict[str, Any], now: datetime) -> str:
    which = f"Attempt {run['attempt']} of {run['max_attempts']}"
    where = f"on {run['node']}" if run["node"] else "on a node that is gone"
    if run["started_at"] is None:
        text = f"{which} is claimed {where} for {_since(run['claimed_at'], now)}"
    else:
        text = f"{which} executes {where} for {_since(run['started_at'], now)}"
        taken = (now - run["started_at"]).total_seconds()
        if run["timeout"] is not None and taken > run["timeout"]:
            text += f", beyond its timeout of {duration(run['timeout'])}"
    if run["cancel_at"] is not None:
        text += f". Its node was asked to stop it {_since(run['cancel_at'], now)} ago"
    elif not run["has_lease"]:
        text += ". That node's lease is over: another node ends this attempt"
    return f"{text}."


def _waiting(run: dict[str, Any], waits: dict[str, Any], word: str, now: datetime) -> str:
    due_in = (run["due_at"] - now).total_seconds()
    tried = ""
    if word == "retrying":
        error = short(run["error"] or "it did not succeed", 90)
        tried = f"Attempt {run['attempt']} of {run['max_attempts']} failed: {error}. "
    if due_in > 0:
        what = "The next begins" if word == "retrying" else "It is due"
        return f"{tried}{what} in {duration(due_in)}, if nothing holds it up."
    return f"{tried}It has been due for {duration(due_in)}: {_obstacle(run, waits, word, now)}."


def _obstacle(run: dict[str, Any], waits: dict[str, Any], word: str, now: datetime) -> str:
    if waits.get("cluster_paused_at"):
        return "the whole cluster is paused" + _by(
            waits["cluster_paused_by"], waits["cluster_paused_note"]
        )
    if waits.get("quarantine_until"):
        left = duration((waits["quarantine_until"] - now).total_seconds())
        return f"the cluster was restored and begins nothing for {left}"
    if waits.get("paused_at"):
        return f"queue {run['queue']} is paused" + _by(waits["paused_by"], waits["paused_note"])
    if word == "parked" or not waits.get("is_served", True):
        return f"no live node offers {run['handler']} for queue {run['queue']}"
    if waits.get("slot_holder"):
        return f"run {waits['slot_holder']} of the same schedule is not over (overlap: skip)"
    if word == "blocked":
        return "what it depends on is not over"
    return "it waits for a free slot"


def _ended(run: dict[str, Any], letter: dict[str, Any] | None) -> str:
    state, attempt, most = run["state"], run["attempt"], run["max_attempts"]
    error = short(run["error"], 160) if run["error"] else None
    if state == "succeeded":
        return "Done." if attempt == 1 else f"Done at attempt {attempt} of {most}."
    if state == "dead":
        left = "" if attempt >= most else ", and its error said not to try again"
        redriven = _redriven(letter)
        return f"Gave up after attempt {attempt} of {most}{left}: {error or 'no error'}.{redriven}"
    if state == "lost":
        return (
            "Its node died while it executed, and it may be executed at most once: "
            f"nobody knows whether it took effect.{_redriven(letter)}"
        )
    reason = short(run["cancel_reason"], 160) if run["cancel_reason"] else error
    text = reason or "no reason was kept"
    return f"{text[:1].upper()}{text[1:]}."


def _redriven(letter: dict[str, Any] | None) -> str:
    if letter is None or letter["requeued_as"] is None:
        return ""
    return f" Redriven as run {letter['requeued_as']}."


def _since(instant: datetime, now: datetime) -> str:
    return duration((now - instant).total_seconds())


def _by(who: str | None, note: str | None) -> str:
    return f" by {who or 'somebody'}" + (f" ({short(note, 80)})" if note else "")
