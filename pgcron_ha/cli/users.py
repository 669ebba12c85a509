"""``pgcron-ha users``, ``tokens`` and ``roles``: who may use the pages, who may see and change what
on them, and what belongs to which team.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from pgcron_ha.cli.arguments import DURATION, JsonGroup, flag, limit_option, option, together
from pgcron_ha.cli.output import columns, note, plural, print_result, print_rows
from pgcron_ha.cli.queues import note_if_unused
from pgcron_ha.cli.session import Session, act, call
from pgcron_ha.credentials import hashed_password, new_token
from pgcron_ha.db.commands import login
from pgcron_ha.model.permissions import ROLES, SCOPE_KINDS, where_held

_ROLE: Final = tuple(ROLES)
_USERS: Final = columns(
    "USER=name:40 SHOWN:32 ROLES:60 STATE SESSIONS LAST_SEEN=last_seen_at ADDED_BY=created_by:16",
    STATE=lambda row: (
        "disabled" if row["disabled_at"] else "password" if row["has_password"] else "no password"
    ),
)
_SESSIONS: Final = columns(
    "SESSION USER=user_name:40 BY=method FROM=address:40 SINCE=created_at LAST_SEEN=last_seen_at"
    " ENDS=expires_at BROWSER=agent:40"
)
_TOKENS: Final = columns(
    "ID TOKEN=name:32 OWNER:32 ROLES:60 ENDS=expires_at LAST_USED=last_used_at"
    " MADE_BY=created_by:16"
)


@click.group("users", cls=JsonGroup)
def users_group() -> None:
    """Users of the pages, and their sessions."""


@users_group.command("add")
@click.argument("name")
@option("--role", "A role for everything.", _ROLE)
@flag("--no-password", "For one who comes by a proxy.")
def add_command(name: str, role: str | None, no_password: bool) -> None:
    """Add the user NAME.

    The password is asked for, or read from stdin.
    """
    act(login.add_user, name, None if no_password else _new_password(), role=role)
    grants = call(login.role_grants, subject=name)
    held = ", ".join(
        f"{row['role']} of {where_held(row)}" for row in grants if row["subject_kind"] == "user"
    )
    print_result(
        {"user": name, "role": role}, f"user '{name}' is added, {held or 'without a role'}"
    )


@users_group.command("list")
@limit_option()
def list_command(limit: int) -> None:
    """List users with their roles."""
    print_rows(call(login.users, limit=limit), _USERS, "no users")


@users_group.command("password")
@click.argument("name")
def password_command(name: str) -> None:
    """Set the password of NAME.

    That ends all sessions of the user, and no token.
    """
    act(login.set_password, name, _new_password())
    said = f"the password of '{name}' is set; its sessions have ended, its tokens stay"
    print_result({"user": name}, said)


@users_group.command("disable")
@click.argument("name")
def disable_command(name: str) -> None:
    """Let NAME in no more, and end its sessions and tokens for good."""
    act(login.disable_user, name, True)
    said = f"user '{name}' is disabled; its sessions and tokens have ended"
    print_result({"user": name, "is_disabled": True}, said)


@users_group.command("enable")
@click.argument("name")
def enable_command(name: str) -> None:
    """Let NAME in again."""
    act(login.disable_user, name, False)
    print_result({"user": name, "is_disabled": False}, f"user '{name}' is enabled")


@users_group.command("remove")
@click.argument("name")
def remove_command(name: str) -> None:
    """Remove NAME with its sessions, tokens and roles."""
    act(login.remove_user, name)
    print_result({"user": name, "is_removed": True}, f"there is no user '{name}' any more")


@users_group.command("sessions")
@click.argument("name", required=False)
@limit_option()
def sessions_command(name: str | None, limit: int) -> None:
    """List who is logged in, or the sessions of NAME.

    Those that were used last come first.
    """
    nothing = "nobody is logged in" if name is None else f"not logged in: '{name}'"
    print_rows(call(login.sessions, name, limit=limit), _SESSIONS, nothing)


@users_group.command("revoke")
@click.argument("name")
@option("--session SESSION", "Only this one of `users sessions`.")
def revoke_command(name: str, session: str | None) -> None:
    """End the sessions and revoke the tokens of NAME."""
    ended = act(login.revoke_sessions, name, session=session)
    said = " and ".join(plural(many, what.removesuffix("s")) for what, many in ended.items())
    print_result({"user": name, **ended}, f"ended {said} of '{name}'")


@click.group("tokens", cls=JsonGroup)
def tokens_group() -> None:
    """Tokens with which programs use the pages' addresses."""


@tokens_group.command("create")
@click.argument("name")
@option("--role", "Its role.", _ROLE, default="viewer")
@option("--scope KIND:NAME", "Only there: queue:mail-*.", into="scopes", multiple=True)
@option("--lifetime", "How long it is valid, up to 365d.", DURATION, default="90d")
@option("--owner USER", "It never has more rights than this user.")
def create_command(name: str, role: str, **options: Any) -> None:
    """Make a token and print it: it is shown this once."""
    token = new_token()
    act(login.add_token, token.id, token.secret_hash, name, role, **options)
    print_result({"id": token.id, "name": name, "token": str(token)}, str(token))


@tokens_group.command("list")
@click.argument("owner", required=False)
@limit_option()
def tokens_command(owner: str | None, limit: int) -> None:
    """List tokens, or those of OWNER; the newest first."""
    print_rows(call(login.tokens, owner, limit=limit), _TOKENS, "no tokens")


@tokens_group.command("revoke")
@click.argument("token_id", metavar="ID")
def revoke_token_command(token_id: str) -> None:
    """Revoke a token."""
    act(login.revoke_token, token_id)
    print_result({"id": token_id, "is_revoked": True}, f"token '{token_id}' is revoked")


def _new_password() -> str:
    """The hash of what was typed, or is the first line of standard input."""
    if sys.stdin.isatty():
        return hashed_password(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    return hashed_password(sys.stdin.readline().rstrip("\r\n"))


_ROLES: Final = columns("WHO:60 ROLE WHERE:60 GRANTED_BY:16 SINCE=granted_at", WHERE=where_held)
_OWNED: Final = columns("TEAM:40 KIND NAME:60 SET_BY:16 SINCE=set_at")

# What grant and revoke name alike.
_of_a_grant = together(
    click.argument("role", type=click.Choice(_ROLE)),
    option("--user USER", "A user of the pages."),
    option("--group GROUP", "Every user of this group."),
    *(
        option(f"--{kind} NAME", f"Within this {kind}: a name, or how names begin (mail-*).")
        for kind in SCOPE_KINDS
    ),
)


def _grant(role: str, user: str | None, group: str | None, within: dict[str, Any]) -> list[str]:
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
    kind, subject, _, *scope = named = _grant(role, user, group, within)
    await session.act(login.grant_role, *named)
    for row in await session.call(login.not_there_yet, kind, subject, *scope):
        note(f"{row['words']}: the role is kept for when there is one")
    if scope[0] == "queue" and not scope[1].endswith("*"):
        await note_if_unused(session, scope[1])
    _print_grant(named, "has")


@roles_group.command("revoke")
@_of_a_grant
def revoke_role_command(role: str, user: str | None, group: str | None, **within: Any) -> None:
    """Take a ROLE back, with the scope that it was given for."""
    named = _grant(role, user, group, within)
    had = act(login.revoke_role, *named)
    _print_grant(named, "no longer has" if had else "did not have")


@roles_group.command("list")
@click.argument("name", required=False)
@limit_option()
def list_roles_command(name: str | None, limit: int) -> None:
    """List roles by who has them, or those of the user or group NAME."""
    print_rows(call(login.role_grants, subject=name, limit=limit), _ROLES, "no roles")


@roles_group.command("team")
@click.argument("kind", type=click.Choice(("queue", "calendar", "key", "producer")))
@click.argument("name")
@click.argument("team", required=False)
async def team_command(session: Session, kind: str, name: str, team: str | None) -> None:
    """Say which TEAM owns a queue, calendar, key or producer.

    NAME belongs to TEAM; without it, to none. A schedule belongs to the team that is its owner.
    """
    await session.act(login.set_team, kind, name, team)
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
    print_rows(call(login.owned, team=team, limit=limit), _OWNED, f"nothing belongs to {whom}")


def _print_grant(named: list[str], verb: str) -> None:
    subject_kind, subject, role, *_ = named
    document = dict(zip(login.GRANT, named, strict=True))
    words = f"{subject_kind} '{subject}' {verb} the role {role} for {where_held(document)}"
    print_result(document, words)
