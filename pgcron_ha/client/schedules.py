"""Schedules in Python: checked where they are written, put into the database by nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from pgcron_ha.client import checks
from pgcron_ha.client.options import POLICIES, check_attempts, check_each, given
from pgcron_ha.db.commands import functions
from pgcron_ha.errors import InvalidInput, Mistakes
from pgcron_ha.spec.cron.fires import DstPolicy
from pgcron_ha.spec.lines import EXAMPLE_SEED
from pgcron_ha.spec.spec import check_spec
from pgcron_ha.spec.text import duration_text

LONGEST_CATCHUP_OF_ALL: Final = timedelta(days=31)


@dataclass(frozen=True)
class CodeSchedule:
    """One schedule of an App, complete and valid: the code decides every policy of it. Each policy
    is an attribute, too.

    Whether it is enabled is left alone, so that an operator's pause outlives a deployment.
    """

    name: str
    spec: str
    handler: str
    policies: Mapping[str, Any]

    def __getattr__(self, policy: str) -> Any:
        if policy not in DEFAULTS:
            raise AttributeError(f"a schedule has no policy {policy!r}", name=policy, obj=self)
        return self.policies[policy]

    async def put(self, connection: Any, schema: str, actor: str | None = None) -> int:
        """Create or change the schedule in the database; its id. An equal one is not written."""
        # The code also decides that a policy is not set.
        policies = {
            name: POLICIES[name].kind() if value is None and POLICIES[name].is_removable else value
            for name, value in self.policies.items()
        }
        policies |= {"managed_by": "code", "actor": actor, "interface": "code"}
        identity = (self.name, self.spec, self.handler)
        return await functions.put_schedule(connection, *identity, **policies, schema=schema)


DEFAULTS: Final[Mapping[str, Any]] = {
    name: policy.default
    for name, policy in POLICIES.items()
    if name not in ("enabled", "managed_by")
}


def define_schedule(
    name: str, spec: str, handler: str, policies: Mapping[str, Any]
) -> CodeSchedule:
    """The checked schedule; `policies` has any of `DEFAULTS`, args as a mapping.

    Raises InvalidSpec, UnknownZone, InvalidInput and TooLarge.
    """
    checks.refuse_others(policies, DEFAULTS, "a schedule has no policy", "The policies")
    checked = check_schedule(name, spec, handler, {"overlap": "skip", **policies})
    return CodeSchedule(name, spec, handler, {**DEFAULTS, **given(checked)})


def check_schedule(
    name: str, spec: str, handler: str, policies: Mapping[str, Any]
) -> dict[str, Any]:
    """The policies as `functions.put_schedule` takes them; those that are None stay None.

    Checks name, spec and handler, too. Raises as `define_schedule`.
    """
    mistakes = Mistakes()
    with mistakes.kept():
        checks.refuse_others(policies, POLICIES, "a schedule has no policy", "The policies")
    mistakes.tried(checks.text, "the schedule's name", name, checks.MOST_NAME_CHARACTERS)
    mistakes.tried(checks.handler_name, handler)
    checked = check_each(policies, POLICIES, mistakes)
    for check in (check_attempts, _check_overlap, _check_late_fires, _check_pauses):
        mistakes.tried(check, checked)
    zone, dst = (checked.get(name) or POLICIES[name].default for name in ("timezone", "dst"))
    with mistakes.kept():
        check_spec(checks.any_text("spec", spec), zone, DstPolicy(dst), EXAMPLE_SEED)
    mistakes.raise_any()
    return checked


def _check_overlap(policies: Mapping[str, Any]) -> None:
    """The database finds what is wrong only together with policies that are already stored."""
    overlap, running = policies.get("overlap"), policies.get("max_running") or 0
    is_alone = overlap in (None, "skip", "queue") and running <= 1
    if policies.get("depends_on_previous") and not is_alone:
        raise InvalidInput(
            f"depends_on_previous with overlap '{overlap}' and max_running {running or 1}",
            "Whether the fire before it succeeded is known when it is over.",
            "Use overlap 'skip' or 'queue', and leave max_running out.",
        )
    if overlap in ("replace", "terminate") and running > 1:
        raise InvalidInput(
            f"overlap {overlap} with max_running {running}",
            "A run that takes the place of the last one runs alone.",
            "Leave max_running out (0 takes it back), or use overlap 'queue'.",
        )
    bound = next((name for name in ("max_queued", "queue_drops") if policies.get(name)), None)
    if bound is not None and overlap not in (None, "queue"):
        raise InvalidInput(
            f"{bound} with overlap '{overlap}'",
            "Only with overlap queue is there a bound to what waits.",
            "Use overlap 'queue', or take them back: max_queued 0, queue_drops ''.",
        )


def _check_late_fires(policies: Mapping[str, Any]) -> None:
    overlap, catchup = policies.get("overlap"), policies.get("catchup")
    if catchup not in (None, "latest", "none") and overlap not in (None, "allow", "queue"):
        raise InvalidInput(
            f"catch-up policy '{catchup}' with overlap '{overlap}'",
            "Late fires are due together, and all but one of them would not run.",
            "Use overlap 'queue', so that they run one after the other, or 'allow'; "
            "or catch-up 'latest'.",
        )
    window = policies.get("catchup_window")
    if catchup == "all" and window and window > LONGEST_CATCHUP_OF_ALL:
        raise InvalidInput(
            f"catch-up all with a window of {duration_text(window)}",
            "All late fires run only within a bound: 31 days at most.",
            "Give a shorter catchup_window.",
        )


def _check_pauses(policies: Mapping[str, Any]) -> None:
    if (policies.get("after_pause"), policies.get("catchup")) == ("catchup", "none"):
        raise InvalidInput(
            "after_pause 'catchup' with catch-up policy 'none'",
            "The catch-up policy decides what a pause held back; none runs nothing late.",
            "Use after_pause 'drop', or catch-up 'latest'.",
        )
    if policies.get("probe_after") and policies.get("pause_after_failures") == 0:
        raise InvalidInput(
            "probe_after without pause_after_failures",
            "What is resumed then is a schedule that failures have paused.",
            "Say after how many: pause_after_failures.",
        )
