"""Time limits that few runs have: silence, and the time in all.

A claim does not carry them. A run that lasts learns them when it is marked as started, so a run
without them, or a short one, costs nothing. All is judged by this node's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pgcron_ha.db.driver.link import Link
from pgcron_ha.executors.contract.base import Context, StopReason
from pgcron_ha.telemetry.events import RunOverruns
from pgcron_ha.telemetry.log import emit

if TYPE_CHECKING:
    from pgcron_ha.db.driver.link import Row


@dataclass(slots=True)
class _Limits:
    silence_timeout: float | None
    give_up_at: float | None
    last_sign: float


class TimeLimits:
    """The runs of this node that have such limits."""

    def __init__(self) -> None:
        self._limits: dict[Context, _Limits] = {}

    def learn(self, contexts: Sequence[Context], rows: Iterable[Row], now: float) -> None:
        """Takes what ``mark_started`` has answered about these runs."""
        by_run: Mapping[int, Context] = {context.run_id: context for context in contexts}
        for row in rows:
            silence, give_up_in = row["silence_timeout"], row["give_up_in"]
            if silence is not None or give_up_in is not None:
                context = by_run[row["id"]]
                self._limits[context] = _Limits(
                    silence,
                    None if give_up_in is None else now + give_up_in,
                    context.started_monotonic or now,
                )

    def exceeded(self, held: Iterable[Context], now: float) -> list[tuple[Context, StopReason]]:
        """Those of the `held` runs that are over a limit, and over which; others are forgotten."""
        if not self._limits:
            return []
        known = set(held)
        self._limits = {each: limits for each, limits in self._limits.items() if each in known}
        found = []
        for context, limits in self._limits.items():
            if context.gave_sign:
                context.gave_sign = False
                limits.last_sign = now
            if limits.give_up_at is not None and now >= limits.give_up_at:
                found.append((context, StopReason.GIVEN_UP))
            elif limits.silence_timeout is not None and (
                now - limits.last_sign >= limits.silence_timeout
            ):
                found.append((context, StopReason.SILENT))
        return found


_AT_ONCE: Final = 200
"""Long runs that one look compares with what was expected of them."""


async def notice_overruns(link: Link) -> int:
    """How many are new to everybody; which node tells of one is decided by the database."""
    rows = await link.rows("notice_overruns", at_most=_AT_ONCE)
    for row in rows:
        emit(RunOverruns(row["run_id"], row["schedule"], row["expected"], row["taken"]))
    return len(rows)
