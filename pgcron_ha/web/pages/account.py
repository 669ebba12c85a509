"""``/account``: one's own password, sessions and tokens."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from starlette.responses import Response

from pgcron_ha.credentials import Token, hashed, new_token
from pgcron_ha.db.commands import login
from pgcron_ha.db.driver.session import Session
from pgcron_ha.errors import Conflict, InvalidInput, PgcronError, Refused
from pgcron_ha.model.permissions import ROLES
from pgcron_ha.web.address import number_in
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages.login import configured
from pgcron_ha.web.security import brings_token

MOST_LISTED: Final = 100
DAYS: Final = 90
MOST_DAYS: Final = 365


async def show_account(page_request: PageRequest) -> Response:
    """Who one is, and how one's sessions and tokens are ended."""
    page_request.query()
    return await _page(page_request)


async def set_password(page_request: PageRequest) -> Response:
    """Needs the password that is to go; ends the other sessions, and gives this one a new id."""
    name, access = _own(page_request), page_request.services.access
    given = await page_request.form("current", "new")
    passwords = configured(access.passwords)
    begun = await access.call(login.begin_login, name, page_request.address)
    try:
        if begun["wait"] > 0:
            raise Conflict("too many attempts have failed", "Each one makes the next one wait.")
        if await passwords.proof(begun["password_hash"], given.get("current", "")) is None:
            raise InvalidInput("that is not your password", "The one that is to go is asked for.")
        new = await passwords.hashed(given.get("new", ""))
    except PgcronError as error:
        return await _page(page_request, problem=error)
    request, renewed = page_request.request, secrets.token_urlsafe(32)
    ids = {"session": access.session_id(request), "renewed": hashed(renewed)}

    async def change(session: Session) -> None:
        await session.act(login.set_password, name, new, address=page_request.address, **ids)
        await _require_session(session, ids["renewed"])

    await page_request.act(change)
    answer = page_request.redirect("account", "password_set")
    access.set_cookie(request, answer, renewed, configured(access.auth).session_life)
    return answer


async def end_sessions(page_request: PageRequest) -> Response:
    """Ends the one that the address names, or all but this one."""
    name = _own(page_request)
    await page_request.form()
    own = page_request.services.access.session_id(page_request.request)
    which = page_request.segments.get("session")
    ended = {"but": own} if which is None else {"session": which}
    await page_request.do(login.revoke_sessions, name, **ended)
    return page_request.redirect("account", "sessions_ended")


async def add_token(page_request: PageRequest) -> Response:
    """Shows the token, once."""
    name, access = _own(page_request), page_request.services.access
    given = await page_request.form("name", "role", "scopes", "days")
    token, named = new_token(), access.named(page_request.request)

    async def add(session: Session) -> None:
        days = number_in("days", given.get("days", str(DAYS)), MOST_DAYS)
        if named is not None:  # a proxy's user has no row before
            await session.call(login.note_user, name, page_request.person.shown, named[1])
        made = token.id, token.secret_hash, given.get("name", ""), given.get("role", "viewer")
        scopes, lifetime = given.get("scopes", "").split(), timedelta(days=days)
        await session.act(login.add_token, *made, scopes, lifetime=lifetime, owner=name)
        if named is None:
            await _require_session(session, access.session_id(page_request.request))

    try:
        await page_request.act(add)
    except (InvalidInput, Conflict) as error:
        return await _page(page_request, problem=error, typed=given)
    return await _page(page_request, token=token)


async def revoke_token(page_request: PageRequest) -> Response:
    """It is worth nothing from now on."""
    name = _own(page_request)
    await page_request.form()
    await page_request.do(login.revoke_token, page_request.segments["token"], owner=name)
    return page_request.redirect("account", "token_revoked")


async def _require_session(session: Session, own: bytes) -> None:
    """Who ends a session locks its user, and so has this wait: what the session had begun leaves
    neither password nor token. Raises Refused.
    """
    if await session.call(login.user_of_session, own) is None:
        raise Refused("your session has ended meanwhile", "Nothing was changed.", "Log in again.")


async def _page(
    page_request: PageRequest,
    *,
    problem: PgcronError | None = None,
    token: Token | None = None,
    typed: Mapping[str, str] | None = None,
) -> Response:
    name, access = _own(page_request), page_request.services.access
    own = access.session_id(page_request.request)
    sessions = await access.call(login.sessions, name, limit=MOST_LISTED, own=own)
    tokens = await access.call(login.tokens, name, limit=MOST_LISTED)
    this = next((row for row in sessions if row["is_own"]), None)
    return page_request.page(
        "account.html",
        None,
        title=page_request.person.shown,
        status=200 if problem is None else 400,
        is_still=True,
        problem=problem,
        name=name,
        roles=[f"{grant.role} of {grant.words}" for grant in page_request.person.grants],
        has_session=this is not None,
        may_set_password=bool(access.passwords and this and this["method"] == "password"),
        sessions=sessions,
        tokens=tokens,
        token=token,
        choices=ROLES,
        typed={"name": "", "role": "", "scopes": "", "days": DAYS, **(typed or {})},
    )


def _own(page_request: PageRequest) -> str:
    """The name of the user who has this account: a person, not a token, or it could make others."""
    configured(page_request.services.access.auth)
    if brings_token(page_request.request.headers):
        raise Refused(
            "a token has no account",
            "Passwords, sessions and tokens are changed by people who have logged in.",
            "Log in, or use `pgcron-ha tokens` and `pgcron-ha users`.",
        )
    return page_request.person.actor.removeprefix("ui:")
