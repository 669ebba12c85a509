"""``/login``, ``/logout``, ``/enter/KEY``: how people come in, and leave.

Two addresses let somebody in by a GET: the printed one with its key, and the one to which a
provider sends the browser back. No other GET changes anything.
"""

from __future__ import annotations

import math
import secrets
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

from starlette.responses import PlainTextResponse, RedirectResponse, Response

from pgcron_ha.credentials import hashed
from pgcron_ha.db.commands import login
from pgcron_ha.db.commands.roles import record_refusal
from pgcron_ha.errors import InvalidInput, NotFound, PgcronError, Refused
from pgcron_ha.model.formats import capital
from pgcron_ha.web.access import inner_path
from pgcron_ha.web.oidc import FLOW_SECONDS, ProviderAway
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.security import SAFE_METHODS

T = TypeVar("T")

KEY_COOKIE_SECONDS: Final = 86_400.0
FLOW: Final = "_login"
"""The cookie of a login through a provider."""

_SECRET_CHARACTERS: Final = 43
WRONG: Final = "No user has this name and this password."


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
            await session.act(record_refusal, "login", "user", None, "oidc")
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
