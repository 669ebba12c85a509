"""What a schedule says of its pauses: those of people, and those that failures bring about."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pgcron_ha.client import checks
from pgcron_ha.db.commands.schedule_policies import SchedulePolicies
from pgcron_ha.errors import InvalidInput

AFTER_PAUSE: Final = ("drop", "catchup")
MOST_FAILURES: Final = 1000
LONGEST_PROBE_WAIT: Final = timedelta(days=1)


def check_pauses(policies: SchedulePolicies) -> None:
    """Raises InvalidInput, as SQL does; durations become timedelta."""
    after = policies.get("after_pause")
    if after is not None:
        checks.choice("after_pause", after, AFTER_PAUSE)
        if (after, policies.get("catchup")) == ("catchup", "none"):
            raise InvalidInput(
                "after_pause 'catchup' with catch-up policy 'none'",
                "The catch-up policy decides what a pause held back; none runs nothing late.",
                "Use after_pause 'drop', or catch-up 'latest'.",
            )
    failures = policies.get("pause_after_failures")
    if failures is not None:
        checks.whole_number(
            "pause_after_failures",
            failures,
            0,
            MOST_FAILURES,
            "A schedule pauses itself after 1 to 1000 failures in a row; 0: never.",
        )
    wait = policies.get("probe_after")
    if wait:
        wait = checks.duration("probe_after", wait, LONGEST_PROBE_WAIT)
        policies["probe_after"] = wait
        if wait is not None and wait < timedelta(seconds=1):
            raise InvalidInput(
                f"probe_after {wait} is out of range",
                "A schedule that failures have paused is probed after 1 second to 1 day.",
                "Write for example 10m.",
            )
        if failures == 0:
            raise InvalidInput(
                "probe_after without pause_after_failures",
                "What is probed is a schedule that failures have paused.",
                "Say after how many: pause_after_failures.",
            )
