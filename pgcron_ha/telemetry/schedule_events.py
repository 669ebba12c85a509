"""Events of schedules and backfills."""

from __future__ import annotations

from pgcron_ha.telemetry.events import ErrorEvent, Event, WarningEvent


class ScheduleIsInvalid(ErrorEvent):
    """This version can't read a schedule, or the database refuses its runs."""

    text = "schedule {schedule!r} is marked invalid: {error}"
    schedule: str
    error: str


class SchedulePausedItself(WarningEvent):
    """A schedule is paused because its runs, or its probe, failed."""

    schedule: int
    note: str

    def sentence(self) -> str:
        """The reason is in the note."""
        return f"schedule {self.schedule} is {' '.join(self.note.split())}"


class ProbeSucceeded(Event):
    """The probe of a schedule that was paused by failures succeeded: it is resumed."""

    text = "schedule {schedule} is resumed: its probe succeeded"
    schedule: int


class TzdataTaken(Event):
    """The cluster uses this node's tzdata from now on."""

    tzdata: str
    before: str | None

    def sentence(self) -> str:
        """What happens to fires that are materialized already."""
        if self.before is None:
            return f"schedules follow tzdata {self.tzdata}"
        return (
            f"schedules follow tzdata {self.tzdata} instead of {self.before}: "
            "those with a time zone have their fires ahead made anew"
        )


class BackfillIsOver(Event):
    """A backfill is done, or has stopped: its last run has ended."""

    backfill: int
    schedule: str
    state: str

    def sentence(self) -> str:
        """Which, and how it ended."""
        ended = "is done" if self.state == "done" else "has stopped"
        return f"backfill {self.backfill} of schedule {self.schedule!r} {ended}"


class BackfillCantGoOn(ErrorEvent):
    """The instants of a backfill can't be computed by this version, or are too many."""

    text = "backfill {backfill} of schedule {schedule!r} can't go on: {error}"
    backfill: int
    schedule: str
    error: str


class BackfillIsPaused(WarningEvent):
    """A run that the next one depends on failed: an operator has to decide."""

    text = "backfill {backfill} of schedule {schedule!r} is paused: {error}"
    backfill: int
    schedule: str
    error: str
