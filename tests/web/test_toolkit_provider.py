"""Login through a provider that others have written: django-oauth-toolkit, as people run it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from tests.web.login_sites import Login, Visitor
from tests.web.oidc_provider import CLIENT, SECRET
from tests.web.test_oidc import served
from tests.web.toolkit_provider import Browser, ToolkitProvider


async def address(visitor: Visitor) -> str:
    """Where the pages send a browser that wants to log in."""
    begun = await visitor.get("/login/oidc?next=%2Fqueues")
    assert begun.status_code == 303, begun.text
    return begun.headers["location"]


async def log_in(visitor: Visitor, toolkit: ToolkitProvider, name: str) -> httpx.Response:
    async with Browser() as browser:
        to = await browser.allow(await address(visitor), name, toolkit.redirect_uri)
    return await visitor.get(to)


async def test_its_users_log_in_have_the_roles_of_their_groups_and_log_out(
    login: Login, toolkit: ToolkitProvider
) -> None:
    await login.execute(
        "INSERT INTO pgcron.role_grant (subject_kind, subject, role)"
        " VALUES ('group', 'on call', 'operator')"
    )
    async with served(login, toolkit) as url, Visitor(url) as ann, Visitor(url) as eve:
        entered = [await log_in(ann, toolkit, "ann"), await log_in(eve, toolkit, "eve")]
        account = await ann.get("/account")
        paused = [await each.post("/queues/mail/pause") for each in (ann, eve)]
        read = [await each.get("/queues") for each in (ann, eve)]
        await ann.post("/logout")
        outside = await ann.get("/queues")
        again = await log_in(ann, toolkit, "ann")

    assert [each.status_code for each in entered] == [303, 303]
    assert entered[0].headers["location"] == "/queues"
    assert "<bdi>ann</bdi>" in account.text
    assert "operator of everything" in account.text
    assert [each.status_code for each in paused] == [303, 403]
    assert [each.status_code for each in read] == [200, 403]
    assert (outside.status_code, again.status_code) == (303, 303)
    users = await login.command("users", "list")
    assert {(each["name"], each["shown"]) for each in users} == {
        (f"oidc:{toolkit.issuer}#1", "ann"),
        (f"oidc:{toolkit.issuer}#2", "eve"),
    }
    pauses = [row for row in await login.audited() if row[2] == "mail"]
    assert pauses[0][0] == f"ui:oidc:{toolkit.issuer}#1"


async def test_it_demands_the_proof_that_the_pages_send_and_takes_a_code_once(
    login: Login, toolkit: ToolkitProvider
) -> None:
    async with served(login, toolkit) as url, Visitor(url) as visitor, Browser() as browser:
        asked = await address(visitor)
        query = {key: value for key, (value,) in parse_qs(urlsplit(asked).query).items()}
        unproven = {k: v for k, v in query.items() if not k.startswith("code_challenge")}
        without = asked.partition("?")[0] + f"?{urlencode(unproven)}"
        refused = await browser.allow(without, "ann", toolkit.redirect_uri)
        answers = []
        for proof in ({}, {"code_verifier": "guessed-by-who-has-seen-the-code-" + 20 * "x"}):
            to = await browser.allow(asked, "ann", toolkit.redirect_uri)
            (code,) = parse_qs(urlsplit(to).query)["code"]
            form = {"grant_type": "authorization_code", "code": code}
            form |= {"redirect_uri": toolkit.redirect_uri, **proof}
            form |= {"client_id": CLIENT, "client_secret": SECRET}
            answers.append(await browser.client.post(f"{toolkit.issuer}/token/", data=form))
        to = await browser.allow(asked, "ann", toolkit.redirect_uri)
        begun = dict(visitor.client.cookies)
        first = await visitor.get(to)
        visitor.client.cookies = httpx.Cookies(begun)  # a browser that forgets no login
        second = await visitor.get(to)

    assert query["code_challenge_method"] == "S256"
    assert "error=invalid_request" in refused
    assert [each.status_code for each in answers] == [400, 400]
    assert answers[1].json()["error"] == "invalid_grant"
    assert (first.status_code, second.status_code) == (303, 503)
    assert "it answered 400" in second.text


async def test_its_keys_are_read_again_when_it_has_another(login: Login, tmp_path: Path) -> None:
    provider = ToolkitProvider(tmp_path)
    async with served(login, provider) as url, Visitor(url) as one, Visitor(url) as other:
        with provider.running():
            before = await log_in(one, provider, "ann")
        provider.rotate()
        with provider.running():
            after = await log_in(other, provider, "ann")

    assert (before.status_code, after.status_code) == (303, 303)


async def test_a_client_whose_secret_is_wrong_is_told_to_the_user_in_words(
    login: Login, toolkit: ToolkitProvider, tmp_path: Path
) -> None:
    (wrong := tmp_path / "wrong").write_text("another secret\n")
    async with (
        served(login, toolkit, oidc_client_secret=f"file:{wrong}") as url,
        Visitor(url) as visitor,
    ):
        refused = await log_in(visitor, toolkit, "ann")

    assert refused.status_code == 503
    assert "it answered 401" in refused.text
    assert await login.execute("SELECT FROM pgcron.web_session") == []
