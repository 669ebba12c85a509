"""``pgcron-ha roles``: who may see and change what on the pages, and what belongs to which team."""

from __future__ import annotations

from typing import Any, Final

import click

from pgcron_ha.cli.arguments import JsonGroup, limit_option, option, together
from pgcron_ha.cli.output import columns, note, print_result, print_rows
from pgcron_ha.cli.queues import note_if_unused
from pgcron_ha.cli.session import Session, act, call
from pgcron_ha.db.commands import roles
from pgcron_ha.model.permissions import ROLES, SCOPE_KINDS, where_held

COLUMNS: Final = columns("WHO:60 ROLE WHERE:60 GRANTED_BY:16 SINCE=granted_at", WHERE=where_held)
OWNED: Final = columns("TEAM:40 KIND NAME:60 SET_BY:16 SINCE=set_at")

# What grant and revoke name alike.
_of_a_grant = together(
    click.argument("role", type=click.Choice(list(ROLES))),
    option("--user USER", "A user of the pages."),
    option("--group GROUP", "Every user of this group."),
    *(
        option(f"--{kind} NAME", f"Within this {kind}: a name, or how names begin (mail-*).")
        for kind in SCOPE_KINDS
    ),
)


def _named(role: str, user: str | None, group: str | None, within: dict[str, Any]) -> list[str]:
    """Kind and name of who has it, and the role with its scope."""
    scopes = [(kind, name) for kind, name in within.items() if name is not None]
    if (user is None) is (group is None) or len(scopes) > 1:
        raise click.UsageError("name one --user or one --group, and one scope at most")
    subject = ["user", user] if group is None else ["group", group]
    return [*map(str, subject), role, *(scopes[0] if scopes else ("all", "*"))]


@click.group("roles", cls=JsonGroup)
def roles_group() -> None:
    """Roles of users on the pages, and what teams own."""


@roles_group.command("grant")
@_of_a_grant
async def grant_command(
    session: Session, /, role: str, user: str | None, group: str | None, **within: Any
) -> None:
    """Give a user or a group a ROLE, for everything or within one scope.

    viewer looks; operator also runs, pauses, cancels, retries and redrives; editor also writes
    schedules and calendars; admin also reads roles and the audit. Several grants add up.
    """
    kind, subject, _, *scope = named = _named(role, user, group, within)
    await session.act(roles.grant_role, *named)
    for row in await session.call(roles.unknown, kind, subject, *scope):
        note(f"{row['words']}: the role is kept for when there is one")
    if scope[0] == "queue" and not scope[1].endswith("*"):
        await note_if_unused(session, scope[1])
    _print(named, "has")


@roles_group.command("revoke")
@_of_a_grant
def revoke_command(role: str, user: str | None, group: str | None, **within: Any) -> None:
    """Take a ROLE back, with the scope that it was given for."""
    named = _named(role, user, group, within)
    had = act(roles.revoke_role, *named)
    _print(named, "no longer has" if had else "did not have")


@roles_group.command("list")
@click.argument("name", required=False)
@limit_option()
def list_command(name: str | None, limit: int) -> None:
    """List roles by who has them, or those of the user or group NAME."""
    print_rows(call(roles.role_grants, subject=name, limit=limit), COLUMNS, "no roles")


@roles_group.command("team")
@click.argument("kind", type=click.Choice(("queue", "calendar", "key", "producer")))
@click.argument("name")
@click.argument("team", required=False)
async def team_command(session: Session, kind: str, name: str, team: str | None) -> None:
    """Say which TEAM owns a queue, calendar, key or producer.

    NAME belongs to TEAM; without it, to none. A schedule belongs to the team that is its owner.
    """
    await session.act(roles.set_team, kind, name, team)
    if kind == "queue":
        await note_if_unused(session, name)
    said = f"{kind} '{name}' belongs to {'no team' if team is None else f'team {team!r}'}"
    print_result({"kind": kind, "name": name, "team": team}, said)


@roles_group.command("teams")
@click.argument("team", required=False)
@limit_option()
def teams_command(team: str | None, limit: int) -> None:
    """List what teams, or TEAM, own beside their schedules."""
    whom = "a team" if team is None else f"team '{team}'"
    print_rows(call(roles.owned, team=team, limit=limit), OWNED, f"nothing belongs to {whom}")


def _print(named: list[str], verb: str) -> None:
    subject_kind, subject, role, *_ = named
    document = dict(zip(roles.GRANT, named, strict=True))
    words = f"{subject_kind} '{subject}' {verb} the role {role} for {where_held(document)}"
    print_result(document, words)
