"""People log in with a browser: by password, through a provider, and out again."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.sessions import own_session
from tests.waiting import until
from tests.web.browser.intact import what_is_injected
from tests.web.browser.test_every_page import LACKING
from tests.web.browser.watched import Tab, Windows
from tests.web.django_shop import shop
from tests.web.login_sites import PASSWORD, Login
from tests.web.oidc_provider import Provider
from tests.web.test_oidc import served
from tests.web.toolkit_provider import ToolkitProvider

pytestmark = pytest.mark.asyncio(loop_scope="session")


# Over those of the folder above: a browser's tests and their servers share one loop.
@pytest_asyncio.fixture(loop_scope="session")
async def provider() -> AsyncIterator[Provider]:
    provider = Provider()
    provider.claims |= {"preferred_username": "<b>Ann</b> “A” \u202eLee"}
    async with provider.running():
        yield provider


async def look(tab: Tab) -> None:
    assert await tab.overflow() == 0
    assert await tab.page.evaluate(LACKING) == []
    assert await what_is_injected(tab) == []


async def fill(tab: Tab, name: str, password: str) -> None:
    await tab.page.get_by_label("Name", exact=True).fill(name)
    await tab.page.get_by_label("Password", exact=True).fill(password)
    await tab.page.get_by_role("button", name="Log in").click()


@pytest.mark.parametrize(("script", "width"), [(True, 1280), (False, 390)])
async def test_a_user_logs_in_makes_a_token_and_logs_out(
    login: Login, windows: Windows, script: bool, width: int
) -> None:
    await login.add("alice")
    async with login.serve(local=True) as url, windows.tab(url, script=script, width=width) as tab:
        await tab.open("/runs?state=dead")
        assert tab.place.startswith("/login?next=")
        assert await tab.page.locator("header nav a").count() == 0
        field = await tab.page.get_by_label("Name", exact=True).bounding_box()
        assert field is not None
        assert field["width"] < 400
        await look(tab)
        await fill(tab, "alice", "a wrong password")
        await expect(tab.page.get_by_role("alert")).to_contain_text("No user has this name")
        await fill(tab, "alice", PASSWORD)
        await tab.page.wait_for_url("**/runs?state=dead")
        if width == 1280:  # one row, also of who may see every page
            header = await tab.page.locator("header").bounding_box()
            assert header is not None
            assert header["height"] < 60
        await tab.page.get_by_role("link", name="alice").click()
        await tab.page.wait_for_url("**/account")
        await look(tab)

        tokens = tab.page.get_by_role("region", name="Tokens")
        await tokens.get_by_label("Name").fill("ci")
        await tokens.get_by_role("button", name="Make a token").click()
        shown = await tab.page.locator("#token-text").inner_text()
        await look(tab)
        await tab.open("/account")
        await tokens.get_by_role("button", name="Revoke").click()
        await expect(tab.page.locator("#notice")).to_contain_text("worth nothing")
        await tab.page.get_by_role("button", name="End all others").click()
        await expect(tab.page.locator("#notice")).to_contain_text("must log in again")
        await tab.page.get_by_label("Current password").fill(PASSWORD)
        await tab.page.get_by_label("New password").fill(f"{PASSWORD} staple")
        await tab.page.get_by_role("button", name="Change it").click()
        await expect(tab.page.locator("#notice")).to_contain_text("The password is set")
        await tab.page.get_by_role("button", name="Log out").click()
        await tab.page.wait_for_url("**/login")
        await fill(tab, "alice", f"{PASSWORD} staple")
        await tab.page.wait_for_url(url)
        await tab.open("/account")
        await tab.page.get_by_role("button", name="End", exact=True).click()
        await tab.page.wait_for_url("**/login?next=*")
        await tab.open("/")
        assert tab.place.startswith("/login")

    assert re.fullmatch(r"pgc_\w{8}_[\w-]{43}", shown)
    assert await login.command("tokens", "list") == []


async def test_a_user_of_a_provider_comes_in_and_its_name_stays_a_text(
    login: Login, provider: Provider, windows: Windows
) -> None:
    async with served(login, provider) as url, windows.tab(url) as tab:
        await tab.open("/nodes")
        await tab.page.get_by_role("link", name="Log in through").click()
        await tab.page.get_by_role("button", name="Allow").click()
        await tab.page.wait_for_url("**/nodes")
        await look(tab)
        await tab.open("/account")
        await look(tab)
        heading = await tab.page.get_by_role("heading", level=1).inner_text()
        tab.troubles[:] = [each for each in tab.troubles if provider.issuer not in each]

    assert heading.startswith("<b>Ann</b>")


async def test_users_of_a_provider_that_others_wrote_log_in_and_out(
    login: Login, toolkit: ToolkitProvider, windows: Windows
) -> None:
    await login.execute(
        "INSERT INTO pgcron.role_grant (subject_kind, subject, role)"
        " VALUES ('group', 'on call', 'operator')"
    )
    async with served(login, toolkit) as url:
        async with windows.tab(url) as tab:
            await tab.open("/queues")
            await tab.page.get_by_role("link", name="Log in through").click()
            await there(tab, "ann")
            await tab.page.get_by_role("button", name="Cancel").click()
            await expect(tab.page.get_by_role("main")).to_contain_text("It says: access_denied")
            await tab.open("/queues")
            await tab.page.get_by_role("link", name="Log in through").click()
            await tab.page.get_by_role("button", name="Authorize").click()
            await tab.page.wait_for_url("**/queues")
            await look(tab)
            await tab.open("/account")
            await expect(tab.page.get_by_role("heading", level=1)).to_have_text("ann")
            await tab.page.get_by_role("button", name="Log out").click()
            await tab.page.wait_for_url("**/login")
            outside = await tab.open("/queues")
            assert tab.place == "/login?next=%2Fqueues"
            assert outside.status == 200
            tab.troubles[:] = [each for each in tab.troubles if "localhost" not in each]
        async with windows.tab(url) as tab:
            await tab.open("/queues")
            await tab.page.get_by_role("link", name="Log in through").click()
            await there(tab, "eve")
            await tab.page.get_by_role("button", name="Authorize").click()
            await tab.page.wait_for_url("**/queues")
            refused = await tab.open("/queues")
            tab.troubles[:] = [each for each in tab.troubles if "localhost" not in each]

    assert refused.status == 403


async def test_pages_within_django_are_used_by_its_users_and_follow_the_cluster(
    full_database: str, tmp_path: Path, windows: Windows
) -> None:
    with shop(full_database, tmp_path) as url:
        async with windows.tab(url) as tab:
            refused = await tab.open("/jobs/queues")
            await tab.open("/accounts/login/?next=/jobs/queues")
            await there(tab, "ada")
            await tab.page.wait_for_url("**/jobs/queues")
            assert await tab.overflow() == 0
            assert await tab.page.evaluate(LACKING) == []
            await tab.page.get_by_role("link", name="ops", exact=True).first.click()
            await tab.page.wait_for_url("**/jobs/queues/ops")
            await tab.page.get_by_role("button", name="Pause").first.click()
            await expect(tab.page.get_by_role("main")).to_contain_text("ui:ada")
            await tab.open("/jobs/queues/ops")
            await tab.page.evaluate("window.marked = true")
            connection = await own_session(full_database)
            await connection.execute("SELECT pgcron.resume_queue('ops', 'eve')")
            await connection.close()
            await expect(tab.page.get_by_role("main")).not_to_contain_text("ui:ada")
            assert await tab.page.evaluate("window.marked === true")

    assert refused.status == 401


async def there(tab: Tab, name: str) -> None:
    """Logs in at the provider."""
    await tab.page.get_by_label("Username").fill(name)
    await tab.page.get_by_label("Password").fill(PASSWORD)
    await tab.page.get_by_role("button", name="Log in").click()


async def test_an_image_of_another_site_is_not_answered(
    login: Login, provider: Provider, windows: Windows
) -> None:
    """The browser itself says that another site asks, also for one that is logged in."""
    await login.add("alice")
    async with login.serve(local=True) as url, windows.tab(url) as tab:
        await tab.open("/login")
        await fill(tab, "alice", PASSWORD)
        await tab.page.wait_for_url(url)
        # A page without a policy of its own, of another site.
        await tab.page.goto(f"{provider.issuer.replace('127.0.0.1', 'localhost')}/keys")
        await tab.page.evaluate("(url) => { new Image().src = url; }", f"{url}schedules")

        async def asked() -> list[int]:
            return [status for path, status in login.answered if path == "/schedules"]

        refused = await until("the image is asked for", asked)
        await tab.page.evaluate("(url) => { location.href = url; }", f"{url}schedules")
        await tab.page.wait_for_url(f"{url}schedules")
        tab.troubles.clear()

    assert refused == [403]
    assert ("/schedules", 200) in login.answered
