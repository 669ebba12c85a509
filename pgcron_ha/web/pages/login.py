"""``/login``, ``/logout``, ``/enter/KEY``: how people come in, and leave; ``/account``: one's own
password, sessions and tokens; ``/roles``: who may see and change what, what teams own, and what
each role may do.

Two addresses let somebody in by a GET: the printed one with its key, and the one to which a
provider sends the browser back. No other GET changes anything.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

from starlette.responses import PlainTextResponse, RedirectResponse, Response

from pgcron_ha.credentials import Token, hashed, new_token
from pgcron_ha.db.commands import login
from pgcron_ha.db.driver.session import Session
from pgcron_ha.errors import Conflict, InvalidInput, NotFound, PgcronError, Refused
from pgcron_ha.model.formats import capital
from pgcron_ha.model.permissions import ROLES, where_held
from pgcron_ha.web.access import inner_path
from pgcron_ha.web.address import number_in
from pgcron_ha.web.oidc import FLOW_SECONDS, ProviderAway
from pgcron_ha.web.page_request import PageRequest, together
from pgcron_ha.web.security import SAFE_METHODS, brings_token

T = TypeVar("T")

KEY_COOKIE_SECONDS: Final = 86_400.0
FLOW: Final = "_login"
"""The cookie of a login through a provider."""

_SECRET_CHARACTERS: Final = 43
WRONG: Final = "No user has this name and this password."


MOST_LISTED: Final = 100
DAYS: Final = 90
MOST_DAYS: Final = 365
_MOST_ROLES: Final = 1_000
_OF_ROLES: Final = together(login.role_grants, login.owned)


def turned_away(page_request: PageRequest) -> Response:
    """What somebody gets who has not logged in: the login, or where to find the address."""
    request, access = page_request.request, page_request.services.access
    if access.auth is not None:
        if request.method in SAFE_METHODS and not page_request.is_live:
            path = request.scope["path"] + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(page_request.link("login", {"next": path}), 303)
        return PlainTextResponse("Log in first.\n", 401)
    return page_request.page(
        "turned_away.html", None, title="Who are you?", status=401, has_key=access.entry.key
    )


async def enter(page_request: PageRequest) -> Response:
    """Lets in who brings the printed key."""
    request, access = page_request.request, page_request.services.access
    key = access.entry.key
    if key is None or request.method != "GET" or not key.use(page_request.segments["key"]):
        return turned_away(page_request)
    answer = RedirectResponse(page_request.link("overview"), 303)
    access.set_cookie(request, answer, key.cookie, KEY_COOKIE_SECONDS, same_site="strict")
    return answer


async def show_login(page_request: PageRequest) -> Response:
    """The form, and the way to the provider."""
    configured(page_request.services.access.auth)
    return _form(page_request, page_request.query("next").get("next"))


async def log_in(page_request: PageRequest) -> Response:
    """Gives a session for a name and a password: an attempt counts when it begins."""
    access = page_request.services.access
    given = await page_request.form("name", "password", "next")
    passwords = configured(access.passwords)
    name, typed = given.get("name", "").strip()[:200], given.get("password", "")
    then = given.get("next")
    begun = await access.call(login.begin_login, name, page_request.address)
    if begun["wait"] > 0:
        return _form(page_request, then, name, _later(begun["wait"]), 429)
    proof = await passwords.proof(begun["password_hash"], typed)
    answer = await _session(page_request, then, "password", name=name, password_hash=proof)
    return answer or _form(page_request, then, name, WRONG, 403)


async def login_by_provider(page_request: PageRequest) -> Response:
    """Sends the browser to the provider, with a secret that its answer must fit."""
    request, access = page_request.request, page_request.services.access
    provider = configured(access.provider)
    then = inner_path(page_request.query("next").get("next"), "")
    secret = secrets.token_urlsafe(32)
    try:
        address = await provider.address(secret)
    except ProviderAway as error:
        return _form(page_request, then, problem=_in_words(error), status=503)
    answer = RedirectResponse(address, 303)
    access.set_cookie(request, answer, secret + quote(then, safe=""), FLOW_SECONDS, FLOW)
    return answer


async def provider_callback(page_request: PageRequest) -> Response:
    """Gives a session to whom the provider has named."""
    request, access = page_request.request, page_request.services.access
    provider, given = configured(access.provider), request.query_params
    kept = request.cookies.get(access.cookie_name(request, FLOW), "")
    secret, then = kept[:_SECRET_CHARACTERS], unquote(kept[_SECRET_CHARACTERS:])
    if request.method != "GET" or len(secret) < _SECRET_CHARACTERS:
        return _form(page_request, then, problem="Begin the login here.", status=403)
    begun = await access.call(login.begin_login, None, page_request.address)
    if begun["wait"] > 0:
        return _form(page_request, then, problem=_later(begun["wait"]), status=429)
    try:
        if given.get("error"):
            raise Refused("the provider has let nobody in", f"It says: {given['error'][:100]}.")
        if given.get("iss", provider.issuer) != provider.issuer:
            raise Refused("the answer is another provider's")
        who = await provider.identity(secret, given.get("state", ""), given.get("code", "")[:4000])
        answer = await _session(page_request, then, "oidc", **who._asdict())
        if answer is None:
            answer = _form(page_request, then, problem="This user is disabled here.", status=403)
    except (Refused, InvalidInput, ProviderAway) as error:
        async with page_request.session() as session:
            await session.act(login.record_refusal, "login", "user", None, "oidc")
        status = 503 if isinstance(error, ProviderAway) else 403
        answer = _form(page_request, then, problem=_in_words(error), status=status)
    access.set_cookie(request, answer, "", 0, FLOW)
    return answer


async def log_out(page_request: PageRequest) -> Response:
    """Ends the session."""
    request, access = page_request.request, page_request.services.access
    configured(access.auth)
    await page_request.form()
    await access.call(login.log_out, access.session_id(request), page_request.address)
    answer = RedirectResponse(page_request.link("login"), 303)
    access.set_cookie(request, answer, "", 0)
    return answer


async def _session(
    page_request: PageRequest, then: str | None, method: str, **proof: Any
) -> Response | None:
    """Shows the page that was asked for, with a session, if the `proof` is worth one. Its id is
    new: whatever the browser had before is worth nothing.
    """
    request, access = page_request.request, page_request.services.access
    auth = configured(access.auth)
    session = secrets.token_urlsafe(32)
    has_begun = await access.call(
        login.end_login,
        method,
        **proof,
        session=hashed(session),
        idle=auth.session_idle,
        life=auth.session_life,
        address=page_request.address,
        agent=request.headers.get("user-agent"),
    )
    if not has_begun:
        return None
    answer = RedirectResponse(inner_path(then, page_request.link("overview")), 303)
    access.set_cookie(request, answer, session, auth.session_life)
    return answer


def _form(
    page_request: PageRequest,
    then: str | None,
    name: str = "",
    problem: str | None = None,
    status: int = 200,
) -> Response:
    auth = configured(page_request.services.access.auth)
    return page_request.page(
        "login.html",
        None,
        title="Log in",
        status=status,
        is_still=True,
        then=inner_path(then, ""),
        name=name,
        problem=problem,
        has_passwords=auth.local,
        issuer=auth.oidc_issuer,
    )


def _later(seconds: float) -> str:
    return f"Too many attempts have failed. Try again in {math.ceil(seconds)} s."


def _in_words(error: PgcronError) -> str:
    return f"{capital(error.message)}. {error.detail or ''}"


def configured(part: T | None) -> T:
    """What a page of the login needs; NotFound where there is none."""
    if part is None:
        raise NotFound(
            "nobody can log in here",
            "No login is configured for these pages.",
            "`pgcron-ha docs log-in` says how that is done.",
        )
    return part


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


async def show_roles(page_request: PageRequest) -> Response:
    """All of them; they are given with ``pgcron-ha roles grant``."""
    page_request.query()
    snapshot = await page_request.read("roles", _OF_ROLES, limit=_MOST_ROLES)
    grants, owned = snapshot.value
    more = {"rows": grants, "owned": owned, "roles": ROLES, "where": where_held}
    return page_request.page("roles.html", snapshot, title="Roles", **more)
