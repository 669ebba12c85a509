"""Schedules in Python: checked where they are written, put into the database by nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pgcron_ha.client import checks
from pgcron_ha.client.options import POLICIES, check_attempts, check_each, given
from pgcron_ha.db.commands import functions
from pgcron_ha.errors import InvalidInput, Mistakes
from pgcron_ha.spec.cron.fires import DstPolicy
from pgcron_ha.spec.lines import EXAMPLE_SEED
from pgcron_ha.spec.spec import check_spec


@dataclass(frozen=True)
class CodeSchedule:
    """One schedule of an App, complete: the code decides every policy of it, and each by itself is
    valid. Each policy is an attribute, too.

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
        """Create or change the schedule in the database; its id. An equal one is not written.

        Raises what the database refuses, with the schedule's name.
        """
        # The code also decides that a policy is not set.
        policies = {
            name: POLICIES[name].kind() if value is None and POLICIES[name].is_removable else value
            for name, value in self.policies.items()
        }
        policies |= {"managed_by": "code", "actor": actor, "interface": "code"}
        identity = (self.name, self.spec, self.handler)
        try:
            return await functions.put_schedule(connection, *identity, **policies, schema=schema)
        except InvalidInput as error:
            raise error.about(f"schedule '{self.name}'") from error


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

    Checks name, spec and handler, too. Raises as `define_schedule`. What does not go together,
    such as catch-up with an overlap policy, the database refuses.
    """
    mistakes = Mistakes()
    with mistakes.kept():
        checks.refuse_others(policies, POLICIES, "a schedule has no policy", "The policies")
    mistakes.tried(checks.text, "the schedule's name", name, checks.MOST_NAME_CHARACTERS)
    mistakes.tried(checks.handler_name, handler)
    checked = check_each(policies, POLICIES, mistakes)
    mistakes.tried(check_attempts, checked)
    zone, dst = (checked.get(name) or POLICIES[name].default for name in ("timezone", "dst"))
    with mistakes.kept():
        check_spec(checks.any_text("spec", spec), zone, DstPolicy(dst), EXAMPLE_SEED)
    mistakes.raise_any()
    return checked
