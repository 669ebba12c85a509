"""The demo's last words: what was owed, what became of it, how punctual it was. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pgcron_ha.demo.accounting import Account
from pgcron_ha.demo.table import aligned, outcome_words
from pgcron_ha.errors import Conflict

_MOST_PROBLEMS: Final = 10
_NOT_RUN: Final = ("skipped", "superseded", "expired", "cancelled")


def summary_lines(
    accounts: Sequence[Account], seconds: float, nodes: str, delays: tuple[float, float] | None
) -> list[str]:
    """The table of accounts and the sentence that sums it up."""
    owed = sum(account.owed for account in accounts)
    unaccounted = sum(len(account.problems) for account in accounts)
    verdict = (
        f"each of the {owed} due occurrences is accounted for"
        if not unaccounted
        else f"{unaccounted} of {owed} due occurrences are NOT accounted for"
    )
    heading = ("SCHEDULE", "DUE", "RUN", "WAITING", "SKIPPED", "MISSED", "OUTCOMES")
    lines = aligned([heading, *(_account_cells(account) for account in accounts)])
    if delays is not None:
        median, worst = map(_milliseconds, delays)
        lines += ["", f"start delay of tick: p50 {median}, p99 {worst} (first attempts)"]
    return [f"after {seconds:.1f} s, {nodes}:", "", *lines, "", verdict]


def unaccounted_error(accounts: Sequence[Account], logs: str) -> Conflict | None:
    """The error that names what is not accounted for; None if everything is."""
    problems = [f"{each.schedule}: {problem}" for each in accounts for problem in each.problems]
    if not problems:
        return None
    more = [f"and {len(problems) - _MOST_PROBLEMS} more"] if len(problems) > _MOST_PROBLEMS else []
    return Conflict(
        f"{len(problems)} due occurrences are not accounted for",
        "\n".join([*problems[:_MOST_PROBLEMS], *more]),
        f"The nodes' logs are in '{logs}'; without a living node nothing is decided.",
    )


def _account_cells(account: Account) -> tuple[str, ...]:
    not_run = sum(account.outcomes.get(outcome, 0) for outcome in _NOT_RUN)
    words = outcome_words(account.outcomes) or "-"
    return (
        account.schedule[:24],
        str(account.owed),
        str(sum(account.outcomes.values()) - not_run),
        str(account.waiting),
        str(not_run),
        str(account.missed),
        f"{words} ({account.retried} after a retry)" if account.retried else words,
    )


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
