"""What happens to schedules and their backfills."""

from __future__ import annotations

from pgcron_ha.telemetry.events import ErrorEvent, Event, WarningEvent


class ScheduleIsInvalid(ErrorEvent):
    """A schedule can't be read by this version, or the database refuses its runs."""

    text = "schedule {schedule!r} is marked invalid: {error}"
    schedule: str
    error: str


class SchedulePausedItself(WarningEvent):
    """A schedule failed so often in a row, or its probe did, that it is paused."""

    schedule: int
    note: str

    def sentence(self) -> str:
        """Says after what."""
        return f"schedule {self.schedule} is {' '.join(self.note.split())}"


class ProbeSucceeded(Event):
    """The probe of a schedule that failures had paused succeeded: it goes on."""

    text = "schedule {schedule} is resumed: its probe succeeded"
    schedule: int


class TzdataTaken(Event):
    """This node's tzdata decides from now on, for the whole cluster."""

    tzdata: str
    before: str | None

    def sentence(self) -> str:
        """Says what becomes of the fires that are made already."""
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
        """Says which, and how to see what came of it."""
        ended = "is done" if self.state == "done" else "has stopped"
        return f"backfill {self.backfill} of schedule {self.schedule!r} {ended}"


class BackfillCantGoOn(ErrorEvent):
    """The instants of a backfill can't be computed by this version, or are too many."""

    text = "backfill {backfill} of schedule {schedule!r} can't go on: {error}"
    backfill: int
    schedule: str
    error: str


class BackfillIsPaused(WarningEvent):
    """A run of a backfill failed that the next one depends on: somebody has to decide."""

    text = "backfill {backfill} of schedule {schedule!r} is paused: {error}"
    backfill: int
    schedule: str
    error: str
