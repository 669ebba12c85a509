"""Login through an OpenID Connect provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.product.config import Address
from tests.product.web import Entry, WebServer, create_app
from tests.servers import free_port
from tests.waiting import until
from tests.web.login_sites import Login, Visitor, auth_settings
from tests.web.oidc_provider import CLIENT, SECRET, Provider
from tests.web.toolkit_provider import ToolkitProvider


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    provider = Provider()
    async with provider.running():
        yield provider


@asynccontextmanager
async def served(
    login: Login, provider: Provider | ToolkitProvider, **more: object
) -> AsyncIterator[str]:
    """The pages of a client of this provider."""
    url = f"http://127.0.0.1:{free_port()}"
    provider.redirect_uri = f"{url}/login/oidc/callback"
    secret = Path(mkdtemp(), "secret")
    secret.write_text(f"{SECRET}\n")
    given = {
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": f"file:{secret}",
        **more,
    }
    entry = Entry(auth=auth_settings(**given), public_url=url)
    port = urlsplit(url).port
    assert port is not None
    server = WebServer(create_app(login.dsn, entry=entry), Address("127.0.0.1", port))
    running = asyncio.create_task(server.run())
    try:
        yield url + "/"
    finally:
        server.stop()
        await running
        rmtree(secret.parent)


async def through(visitor: Visitor, path: str = "/login/oidc") -> httpx.Response:
    """The answer to the browser that comes back from the provider."""
    return await visitor.get(await back(visitor, path))


async def back(visitor: Visitor, path: str = "/login/oidc") -> str:
    """Where the provider sends the browser, which has allowed the pages to know it."""
    begun = await visitor.get(path)
    assert begun.status_code == 303, begun.text
    async with httpx.AsyncClient(verify=False) as elsewhere:
        asked = await elsewhere.get(begun.headers["location"])
        assert asked.status_code == 200, asked.text
        allowed = await elsewhere.post(begun.headers["location"])
    parts = urlsplit(allowed.headers["location"])
    return f"{parts.path}?{parts.query}"


async def test_the_provider_s_user_gets_a_session_and_the_roles_of_its_groups(
    login: Login, provider: Provider
) -> None:
    await login.execute(
        "INSERT INTO pgcron.role_grant (subject_kind, subject, role)"
        " VALUES ('group', 'on call', 'operator')"
    )
    async with served(login, provider) as url, Visitor(url) as visitor:
        form = await visitor.get("/login?next=/runs")
        entered = await through(visitor, "/login/oidc?next=%2Fruns%3Fstate%3Ddead")
        account = await visitor.get("/account")
        paused = await visitor.post("/queues/mail/pause")
        (by,) = await login.execute("SELECT paused_by FROM pgcron.queue WHERE name = 'mail'")
        await visitor.post("/logout")
        after = await visitor.get("/account")

    name = f"oidc:{provider.issuer}#4711"
    assert f"Log in through <bdi>{provider.issuer}" in form.text
    assert (entered.status_code, entered.headers["location"]) == (303, "/runs?state=dead")
    assert "Ann “A” Lee" in account.text
    assert "operator of everything" in account.text
    assert (paused.status_code, by["paused_by"]) == (303, f"ui:{name}")
    assert after.status_code == 303
    (user,) = await login.command("users", "list")
    assert (user["name"], user["shown"], user["has_password"]) == (name, "Ann “A” Lee", False)


async def test_another_subject_with_the_same_name_is_another_user(
    login: Login, provider: Provider
) -> None:
    async with served(login, provider) as url, Visitor(url) as one, Visitor(url) as other:
        await through(one)
        provider.claims |= {"sub": "4712", "groups": []}
        await through(other)

    users = await login.command("users", "list")
    assert len({user["name"] for user in users}) == 2


LIES: list[tuple[dict[str, Any], str]] = [
    ({"claims": {"aud": "another client"}}, "InvalidClaimError"),
    ({"claims": {"aud": [CLIENT, "another"], "azp": "another"}}, "made for another client"),
    ({"claims": {"iss": "https://evil.example"}}, "InvalidClaimError"),
    ({"claims": {"nonce": "of another login"}}, "InvalidClaimError"),
    ({"claims": {"nonce": None}}, "MissingClaimError"),
    ({"claims": {"exp": 1}}, "ExpiredTokenError"),
    ({"claims": {"exp": None}}, "MissingClaimError"),
    ({"claims": {"sub": None}}, "MissingClaimError"),
    ({"claims": {"sub": 4711}}, "InvalidClaimError"),
    ({"claims": {"sub": "two\nlines"}}, "is not the name of a user"),
    ({"hmac": True}, "UnsupportedAlgorithmError"),
    ({"none": True}, "UnsupportedAlgorithmError"),
    ({"foreign key": True}, "BadSignatureError"),
    ({"answer": {"state": "of another login"}}, "no login that this browser has begun"),
    ({"answer": {"iss": "https://evil.example"}}, "another provider"),
    ({"answer": {"error": "access_denied"}}, "It says: access_denied"),
    ({"answer": {"code": "made up"}}, "it answered 400"),
]


@pytest.mark.parametrize(("lies", "said"), LIES, ids=[str(lies) for lies, _ in LIES])
async def test_what_is_not_this_login_s_gives_no_session(
    login: Login, provider: Provider, lies: dict[str, Any], said: str
) -> None:
    async with served(login, provider) as url, Visitor(url) as visitor:
        provider.lies = lies
        refused = await through(visitor)
        page = await visitor.get("/")

    assert refused.status_code in (403, 503)
    assert said in refused.text
    assert page.status_code == 303
    assert await login.execute("SELECT FROM pgcron.web_session") == []
    assert ("ui:nobody", "login", "", "refused") in await login.audited()


@pytest.mark.parametrize(
    "lies",
    [{"issuer": "https://evil.example"}, {"token_endpoint": "http://evil.example/token"}],
    ids=str,
)
async def test_a_provider_that_is_another_one_or_sends_secrets_in_the_clear_is_not_used(
    login: Login, provider: Provider, lies: dict[str, Any]
) -> None:
    provider.lies = lies
    async with served(login, provider) as url, Visitor(url) as visitor:
        begun = await visitor.get("/login/oidc")
        if begun.status_code == 303:
            begun = await through(visitor)

    assert begun.status_code == 503
    assert "the login provider does not answer as it should" in begun.text.lower()


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
async def test_keys_are_read_again_when_the_provider_has_a_new_one(
    login: Login, provider: Provider, algorithm: str
) -> None:
    provider.rotate(algorithm)
    async with served(login, provider) as url, Visitor(url) as one, Visitor(url) as other:
        before = await through(one)
        provider.rotate(algorithm)
        after = await through(other)
        provider.rotate(algorithm)
        too_soon = await through(other)

    assert [each.status_code for each in (before, after, too_soon)] == [303, 303, 403]
    assert provider.asked == ["discovery", "token", "keys", "token", "keys", "token"]


async def test_an_answer_is_for_the_browser_that_asked_and_only_once(
    login: Login, provider: Provider
) -> None:
    async with served(login, provider) as url, Visitor(url) as victim, Visitor(url) as attacker:
        path = await back(attacker)
        planted = await victim.get(path)
        await victim.get("/login/oidc")
        with_a_login_of_its_own = await victim.get(path)
        looked = await attacker.client.head(path)
        first = await attacker.get(path)
        again = await attacker.get(path)

    assert [planted.status_code, with_a_login_of_its_own.status_code] == [403, 403]
    assert (looked.status_code, first.status_code, again.status_code) == (403, 303, 403)


async def test_while_the_provider_is_away_few_of_the_visitors_open_a_connection_to_it(
    login: Login, provider: Provider
) -> None:
    provider.answers.clear()
    async with served(login, provider) as url, Visitor(url) as visitor:
        begun = [asyncio.create_task(visitor.get("/login/oidc")) for _ in range(20)]
        await until("some have asked", lambda: len(provider.asked) >= 8)
        assert (await visitor.get("/livez")).status_code == 200  # after all of them
        asked = len(provider.asked)
        provider.answers.set()
        answers = await asyncio.gather(*begun)

    assert asked == 8
    assert {answer.status_code for answer in answers} == {303}


async def test_a_disabled_user_of_the_provider_is_not_let_in(
    login: Login, provider: Provider
) -> None:
    async with served(login, provider) as url, Visitor(url) as visitor:
        await through(visitor)
        await login.command("users", "disable", f"oidc:{provider.issuer}#4711")
        inside = await visitor.get("/")
        again = await through(visitor)

    assert (inside.status_code, again.status_code) == (303, 403)
    assert "This user is disabled here." in again.text
    name = f"oidc:{provider.issuer}#4711"
    refused = [row for row in await login.audited() if row[3] == "refused"]
    assert refused == [("ui:nobody", "login", name, "refused")]  # once, with its name


async def test_the_redirect_is_to_the_configured_address_whatever_the_request_names(
    login: Login, provider: Provider
) -> None:
    async with served(login, provider) as url, Visitor(url) as visitor:
        begun = await visitor.get("/login/oidc", host=f"localhost:{urlsplit(url).port}")

    query = parse_qs(urlsplit(begun.headers["location"]).query)
    assert query["redirect_uri"] == [f"{url}login/oidc/callback"]
