"""The policies of a schedule in English, each a clause."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from pgcron_ha.spec.text import duration_text, in_number, listed

# Values of texts that people chose are cut.
MOST_CHARACTERS: Final = 80

_OVERLAPS: Final = {
    "skip": "the fire is skipped",
    "queue": "the fire waits for its end",
    "replace": "it is cancelled, and the new one starts when it has stopped",
    "terminate": "it is killed, and the new one starts when it has stopped",
}
# Part of other policies' sentences, or irrelevant to when and how it runs.
_SILENT: Final = frozenset(
    {
        "max_running",
        "pause_after_failures",
        "probe_after",
        "silence_timeout",
        "give_up_after",
        "max_attempts",
        "concurrency_key",
        "weight",
        "args",
        "timezone",
        "dst",
        "queue",
        "priority",
        "managed_by",
        "retry_base",
        "retry_cap",
        "retry",
        "catchup_window",
        "max_queued",
        "queue_drops",
    }
)


def policy_words(policies: Mapping[str, Any]) -> list[str]:
    """The clauses of those that are given, in a fixed order, then of those without words of their
    own, by name. Durations are `timedelta` or seconds.
    """
    clauses = [words(policies) for words in _WORDS.values()]
    unknown = sorted(set(policies) - set(_WORDS) - _SILENT)
    clauses += [_plainly(name, policies[name]) for name in unknown]
    return [clause for clause in clauses if clause]


def _enabled(policies: Mapping[str, Any]) -> str:
    return "it is paused" if policies.get("enabled") is False else ""


def _overlap(policies: Mapping[str, Any]) -> str:
    word = policies.get("overlap")
    if word is None:
        return ""
    most = policies.get("max_running")
    last = "the last run is" if most in (None, 1) else f"{most} runs are"
    what = _OVERLAPS.get(str(word), f"overlap is {_short(word)}")
    if word == "allow":
        if most == 1:
            return "its runs wait for one another, however many"
        allowed = f"up to {most} of its runs overlap, and others wait, however many"
        return "runs may overlap" if most is None else allowed
    if word == "queue" and most not in (None, 1):
        what = "the fire waits for the end of one"
    if word == "queue" and policies.get("max_queued") is not None:
        dropped = "oldest" if policies.get("queue_drops") == "oldest" else "newest"
        queued = policies["max_queued"]
        what += f" (at most {queued} {in_number(queued, 'does', 'do')}; the {dropped} is dropped)"
    return f"if {last} not over, {what}"


def _catchup(policies: Mapping[str, Any]) -> str:
    word = policies.get("catchup")
    if word is None:
        return ""
    if word == "none":
        return "late fires don't run"
    window = policies.get("catchup_window")
    late = "late fires" if window is None else f"fires late by up to {duration_text(window)}"
    if word == "all":
        return f"all {late} run"
    number = str(word).removeprefix("latest").strip()
    newest = f"the newest {_short(number)} run" if number else "only the newest runs"
    return f"of {late} {newest}"


def _limits(policies: Mapping[str, Any]) -> str:
    texts = []
    for name, words in (
        ("timeout", "stopped after {}"),
        ("silence_timeout", "stopped when silent for {}"),
        ("give_up_after", "given up {} after its fire, retries and all"),
    ):
        if policies.get(name) is not None:
            texts.append(words.format(duration_text(policies[name])))
    return f"a run is {listed(texts)}" if texts else ""


def _start_deadline(policies: Mapping[str, Any]) -> str:
    value = policies.get("start_deadline")
    if value is None:
        return ""
    return f"a run that has not begun {duration_text(value)} after its fire expires"


def _attempts(policies: Mapping[str, Any]) -> str:
    delivery, most = policies.get("delivery"), policies.get("max_attempts")
    if delivery == "at_most_once":
        return "it is executed at most once"
    tried = "" if most is None else f"it is tried up to {most} time{'s' if most > 1 else ''}"
    if delivery == "transactional":
        return listed([text for text in (tried, "its effects are one transaction") if text])
    return tried


def _place(policies: Mapping[str, Any]) -> str:
    texts = []
    if policies.get("requires"):
        requires: Sequence[str] = policies["requires"]
        texts.append(f"only on nodes with {listed([_short(label) for label in requires])}")
    if policies.get("concurrency_key"):
        texts.append(f'with the concurrency key "{_short(policies["concurrency_key"])}"')
    if (policies.get("weight") or 1) > 1:
        texts.append(f"on {policies['weight']} slots of its node")
    return f"it runs {listed(texts)}" if texts else ""


def _pauses(policies: Mapping[str, Any]) -> str:
    texts = []
    if policies.get("after_pause") == "catchup":
        texts.append("what fires in a pause is late")
    failures, probe = policies.get("pause_after_failures"), policies.get("probe_after")
    if failures:
        text = f"it pauses after {failures} failure{'s in a row' if failures > 1 else ''}"
        texts.append(text if probe is None else f"{text}, for {duration_text(probe)} at first")
    return "; ".join(texts)


def _due(policies: Mapping[str, Any]) -> str:
    if not policies.get("jitter"):
        return ""
    return f"each fire is due up to {duration_text(policies['jitter'])} later, all alike"


def _end(policies: Mapping[str, Any]) -> str:
    most = policies.get("max_runs")
    return f"it ends after {most} run{'s' if most > 1 else ''}" if most else ""


def _previous(policies: Mapping[str, Any]) -> str:
    is_so = policies.get("depends_on_previous")
    return "a fire does not run while the one before it has failed" if is_so else ""


_WORDS: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "enabled": _enabled,
    "jitter": _due,
    "max_runs": _end,
    "overlap": _overlap,
    "depends_on_previous": _previous,
    "catchup": _catchup,
    "after_pause": _pauses,
    "start_deadline": _start_deadline,
    "timeout": _limits,
    "delivery": _attempts,
    "requires": _place,
}


def _plainly(name: str, value: object) -> str:
    """``jitter 5m``; nothing for what is not set."""
    if value is None or value is False or value in ("", (), []):
        return ""
    words = name.replace("_", " ")
    if value is True:
        return words
    if isinstance(value, timedelta):
        return f"{words} {duration_text(value)}" if value else ""
    return f"{words} {_short(value)}"


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
