"""The pages under a prefix of a Django project, whose own users see them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import httpx
import pytest

from tests.servers import ThrowAwayServer
from tests.sessions import own_session
from tests.web.django_shop import HOST, shop
from tests.web.login_sites import PASSWORD, Visitor


@pytest.fixture(scope="module")
def dsn(server: ThrowAwayServer, template: str) -> Iterator[str]:
    name = f"shop_{os.getpid()}"
    yield server.create_database(name, template)
    server.drop_database(name)


@pytest.fixture(scope="module")
def url(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with shop(dsn, tmp_path_factory.mktemp("shop")) as url:
        yield url


async def in_django(visitor: Visitor, where: str, **fields: str) -> httpx.Response:
    """Sends a form of Django with the token that it wants."""
    form = await visitor.get("/accounts/login/")
    (token,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', form.text)
    return await visitor.post(where, csrfmiddlewaretoken=token, **fields)


async def log_in(visitor: Visitor, name: str) -> None:
    answer = await in_django(visitor, "/accounts/login/", username=name, password=PASSWORD)
    assert (answer.status_code, answer.headers["location"]) == (302, "/jobs/"), answer.text


async def test_users_of_django_have_the_roles_that_the_project_gives_them(
    url: str, dsn: str
) -> None:
    async with (
        Visitor(url) as nobody,
        Visitor(url) as bob,
        Visitor(url) as ada,
        Visitor(url) as root,
    ):
        for name, visitor in {"bob": bob, "ada": ada, "root": root}.items():
            await log_in(visitor, name)
        everyone = (nobody, bob, ada, root)
        pages = [await each.get("/jobs/queues") for each in everyone]
        audit = [(await each.get("/jobs/audit")).status_code for each in everyone]
        paused = [await each.post("/jobs/queues/mail/pause") for each in everyone]
        elsewhere = [
            await ada.client.post("/jobs/queues/mail/resume", headers=headers)
            for headers in ({}, {"origin": "https://evil.example"}, {"sec-fetch-site": "same-site"})
        ]
        await in_django(ada, "/accounts/logout/")
        outside = await ada.get("/jobs/queues")

    assert [each.status_code for each in pages] == [401, 401, 200, 200]
    assert [audit, outside.status_code] == [[401, 401, 403, 200], 401]
    assert [each.status_code for each in paused] == [401, 401, 303, 303]
    assert paused[2].headers["location"].startswith("/jobs/queues")
    assert [each.status_code for each in elsewhere] == [403, 403, 403]
    assert "<bdi>ada</bdi>" in pages[2].text
    connection = await own_session(dsn)
    by = await connection.fetch("SELECT actor, outcome FROM pgcron.audit WHERE name = 'mail'")
    await connection.close()
    assert [tuple(each) for each in by] == [("ui:ada", "done")]  # once: then it is paused


async def test_links_forms_and_files_stay_under_the_prefix_and_the_rest_is_django_s(
    url: str,
) -> None:
    async with Visitor(url) as ada:
        await log_in(ada, "ada")
        there = re.compile(r'(?:href|src|action)="([^"#]+)')
        found = {
            path: there.findall((await ada.get(path)).text)
            for path in ("/jobs/", "/jobs/schedules", "/jobs/queues", "/jobs/docs")
        }
        files = {each for links in found.values() for each in links if "/static/" in each}
        types = {(await ada.get(each)).headers["content-type"].partition(";")[0] for each in files}
        run = await ada.get("/runs/1")

    assert all(len(links) > 5 for links in found.values())
    foreign = {each for links in found.values() for each in links if not each.startswith("/jobs/")}
    assert {each for each in foreign if not each.startswith(("?", "https://"))} == set()
    assert types == {"text/css", "text/javascript", "image/svg+xml"}
    assert run.json() == {"error": "there is no run 1"}


async def test_the_pages_answer_to_the_names_of_the_project_alone(url: str) -> None:
    async with Visitor(url) as ada:
        await log_in(ada, "ada")
        answers = [await ada.get("/jobs/", host=host) for host in (HOST, "evil.example")]

    assert [each.status_code for each in answers] == [200, 421]
