"""Schedules as Python defines them: judged where they are written, put when a node starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Final, cast

from pgcron_ha.client import checks
from pgcron_ha.client.overlap import check_overlap
from pgcron_ha.client.pauses import check_pauses
from pgcron_ha.client.requirements import requirement_words
from pgcron_ha.client.retry_policy import retry_text
from pgcron_ha.config import format_duration
from pgcron_ha.db.commands import functions
from pgcron_ha.db.commands.schedule_policies import SchedulePolicies
from pgcron_ha.errors import InvalidInput
from pgcron_ha.model.plan import LONGEST_JITTER, CatchUp
from pgcron_ha.spec.cron.fires import DstPolicy
from pgcron_ha.spec.macros import EXAMPLE_SEED
from pgcron_ha.spec.spec import check_spec

LONGEST_CATCHUP_OF_ALL: Final = timedelta(days=31)
INTERFACES: Final = ("cli", "code", "file", "sql", "ui")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSchedule:
    """One schedule of an App, complete and valid: the code decides every policy of it.

    Whether it is enabled is left alone, so that an operator's pause outlives a deployment.
    """

    name: str
    spec: str
    handler: str
    args: str = "{}"
    timezone: str = "UTC"
    dst: str = "vixie"
    queue: str = "default"
    priority: int = 5
    overlap: str = "skip"
    catchup: str = "latest"
    catchup_window: timedelta = timedelta(hours=1)
    start_deadline: timedelta | None = None
    timeout: timedelta = timedelta(hours=1)
    max_attempts: int | None = None
    retry_base: timedelta = timedelta(seconds=2)
    retry_cap: timedelta = timedelta(hours=1)
    retry: str = "{}"
    delivery: str = "at_least_once"
    lane: str | None = None
    requires: tuple[str, ...] = ()
    give_up_after: timedelta | None = None
    silence_timeout: timedelta | None = None
    weight: int = 1
    max_running: int | None = None
    max_queued: int | None = None
    queue_drops: str | None = None
    after_pause: str = "drop"
    jitter: timedelta | None = None
    max_runs: int | None = None
    pause_after_failures: int | None = None
    probe_after: timedelta | None = None
    depends_on_previous: bool = False

    async def put(self, connection: Any, schema: str, actor: str | None = None) -> int:
        """Make the database's schedule of this name so; its id. Nothing is written if it is."""
        policies = {field.name: getattr(self, field.name) for field in fields(self)}
        policies["lane"] = self.lane or ""  # the code decides that there is none, too
        policies["max_running"] = self.max_running or 0
        policies["pause_after_failures"] = self.pause_after_failures or 0
        policies["probe_after"] = self.probe_after or timedelta(0)
        policies["max_queued"] = self.max_queued or 0
        policies["queue_drops"] = self.queue_drops or ""
        policies["jitter"] = self.jitter or timedelta(0)
        policies["max_runs"] = self.max_runs or 0
        return await functions.put_schedule(
            connection, **policies, managed_by="code", actor=actor, interface="code", schema=schema
        )


def define_schedule(
    name: str, spec: str, handler: str, policies: Mapping[str, Any]
) -> CodeSchedule:
    """The checked schedule; `policies` has any of the fields after `handler`, args as a mapping.

    Raises InvalidSpec, UnknownZone, InvalidInput and TooLarge.
    """
    known = [field.name for field in fields(CodeSchedule)[3:]]
    _check_names(policies, known)
    checked = check_schedule(name, spec, handler, {"overlap": "skip", **policies})
    given: dict[str, Any] = {key: value for key, value in checked.items() if value is not None}
    return CodeSchedule(name=name, spec=spec, handler=handler, **given)


def check_schedule(
    name: str, spec: str, handler: str, policies: Mapping[str, Any]
) -> SchedulePolicies:
    """The policies as `interfaces.put_schedule` takes them; those that are None stay None.

    Judges name, spec and handler too. Raises as `define_schedule`.
    """
    _check_names(policies, list(SchedulePolicies.__annotations__))
    checks.text("the schedule's name", name, checks.MOST_NAME_CHARACTERS)
    checks.handler_name(handler)
    checked = cast(SchedulePolicies, dict(policies))
    _check_choices(checked)
    _check_durations(checked)
    checks.max_runs(checked.get("max_runs"))
    _check_spec(spec, checked)
    return checked


def _check_names(policies: Mapping[str, Any], known: list[str]) -> None:
    unknown = set(policies) - set(known)
    if unknown:
        near = get_close_matches(min(unknown), known, n=1)
        raise InvalidInput(
            f"a schedule has no policy '{min(unknown)}'",
            f"The policies are {', '.join(known)}.",
            f"Did you mean '{near[0]}'?" if near else "Correct its spelling, or leave it out.",
        )


def _check_spec(spec: str, policies: SchedulePolicies) -> None:
    zone, dst = policies.get("timezone"), policies.get("dst")
    for what, value in (("spec", spec), ("timezone", zone), ("dst", dst)):
        if value is not None and not isinstance(value, str):
            raise InvalidInput(f"{what} is a {type(value).__name__}", f"{what} is text.")
    policy = DstPolicy.VIXIE if dst is None else DstPolicy.parse(dst)
    if dst is not None:
        policies["dst"] = str(policy)
    check_spec(spec, "UTC" if zone is None else zone, policy, EXAMPLE_SEED)


def _check_choices(policies: SchedulePolicies) -> None:
    if policies.get("args") is not None:
        policies["args"] = checks.args_text(policies["args"])
    if policies.get("retry") is not None:
        policies["retry"] = retry_text(policies["retry"])
    if policies.get("queue") is not None:
        checks.queue_name(policies["queue"])
    if policies.get("priority") is not None:
        checks.priority(policies["priority"])
    if policies.get("catchup") is not None:
        policies["catchup"] = CatchUp.parse(str(policies["catchup"])).text
    check_overlap(policies)
    check_pauses(policies)
    if policies.get("delivery") is not None:
        checks.choice("delivery", policies["delivery"], checks.DELIVERIES)
    if policies.get("managed_by") is not None:
        checks.choice("managed_by", policies["managed_by"], INTERFACES)
    if policies.get("lane"):
        checks.lane_name(policies["lane"])
    if policies.get("requires") is not None:
        policies["requires"] = requirement_words(policies["requires"]) or ()
    checks.weight(policies.get("weight"))
    checks.max_attempts(policies.get("max_attempts"), policies.get("delivery"))


def _check_durations(policies: SchedulePolicies) -> None:
    bounds: dict[str, timedelta | None] = {
        "catchup_window": None,
        "start_deadline": None,
        "timeout": checks.LONGEST_TIMEOUT,
        "retry_base": checks.LONGEST_RETRY_BASE,
        "retry_cap": checks.LONGEST_TIMEOUT,
        "give_up_after": checks.LONGEST_WAIT,
    }
    for name, most in bounds.items():
        if policies.get(name) is not None:
            policies[name] = checks.duration(name, policies[name], most)  # type: ignore[literal-required]
    if policies.get("silence_timeout") is not None:
        policies["silence_timeout"] = checks.silence(policies["silence_timeout"])
    jitter = policies.get("jitter")
    if jitter is not None:
        is_none = checks.seconds("jitter", jitter) == 0  # takes away what the schedule has
        policies["jitter"] = (
            timedelta(0) if is_none else checks.duration("jitter", jitter, LONGEST_JITTER)
        )
    window = policies.get("catchup_window")
    if policies.get("catchup") == "all" and window and window > LONGEST_CATCHUP_OF_ALL:
        raise InvalidInput(
            f"catch-up all with a window of {format_duration(window.total_seconds())}",
            "All late fires run only within a bound: 31 days at most.",
            "Give a shorter catchup_window.",
        )
