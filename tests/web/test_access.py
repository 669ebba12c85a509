"""Pages without login: the printed key, the socket of one user, and what other sites may ask."""

from __future__ import annotations

import asyncio
import re
import socket
import stat
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from pgcron_ha.errors import ConfigError
from tests.product.config import Address, SocketPath
from tests.product.model import LOCAL, Grant, Person
from tests.product.web import ROUTES, Entry, LocalKey, WebRoute, WebServer, create_app
from tests.web.conftest import Site, browsing, serving


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.name}")
async def test_who_has_no_key_sees_only_what_is_open(read_site: Site, route: WebRoute) -> None:
    path = re.sub(r"\{\w+\}", "1", route.path)
    headers = {"origin": read_site.url.rstrip("/")}
    async with httpx.AsyncClient(base_url=read_site.url, verify=False) as stranger:
        answer = await stranger.request(route.method, path, headers=headers)

    if route.permission == "open":
        is_key = path.startswith("/enter/")
        assert (answer.status_code == 401) == is_key
    else:
        assert answer.status_code == 401
        assert "it works once" in answer.text


async def test_the_printed_key_lets_one_browser_in_and_then_there_is_another(database: str) -> None:
    printed: list[str] = []
    key = LocalKey()
    key.announce = printed.append
    server = WebServer(create_app(database, entry=Entry(key=key)), Address("127.0.0.1", 0))
    running = asyncio.create_task(server.run())
    first, second = (httpx.AsyncClient(base_url=server.url, verify=False) for _ in range(2))
    path = key.path

    looked = await first.head(path)
    entered = await first.get(path)
    again = await second.get(path)
    wrong = await second.get("/enter/guessed")
    inside, outside = await first.get("/runs"), await second.get("/runs")
    [following] = printed
    later = await second.get(following)
    cookie = entered.headers["set-cookie"].lower()
    for client in (first, second):
        await client.aclose()
    server.stop()
    await running

    assert (looked.status_code, entered.status_code, again.status_code) == (401, 303, 401)
    assert (wrong.status_code, inside.status_code, outside.status_code) == (401, 200, 401)
    assert (later.status_code, following == path) == (303, False)
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "domain" not in cookie


@pytest.mark.parametrize(
    ("site", "mode", "dest", "status"),
    [
        ("cross-site", "no-cors", "image", 403),
        ("cross-site", "cors", "empty", 403),
        ("same-site", "no-cors", "script", 403),
        ("cross-site", "navigate", "iframe", 403),
        ("cross-site", "navigate", "object", 403),
        ("cross-site", "navigate", "document", 200),
        ("same-site", "navigate", "document", 200),
        ("same-origin", "cors", "empty", 200),
        ("none", "navigate", "document", 200),
    ],
)
async def test_pages_of_other_sites_lead_here_and_read_nothing(
    read_site: Site, site: str, mode: str, dest: str, status: int
) -> None:
    headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}

    page = await read_site.get("/schedules", **headers)
    probe = await read_site.get("/livez", **headers)

    assert (page.status_code, probe.status_code) == (status, 200)
    assert status == 200 or len(page.content) < 200


async def test_a_socket_is_for_its_owner_alone(database: str, tmp_path: Path) -> None:
    path = tmp_path / "web.socket"
    with socket.socket(socket.AF_UNIX) as left_by_a_dead_server:
        left_by_a_dead_server.bind(str(path))
    app = create_app(database, entry=Entry(is_private=True))
    server = WebServer(app, SocketPath(str(path)))
    running = asyncio.create_task(server.run())
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        mode = stat.S_IMODE(path.stat().st_mode)
        page = await client.get("/")
        elsewhere = await client.get("/", headers={"host": "evil.example"})
    server.stop()
    await running

    assert (mode, page.status_code, elsewhere.status_code) == (0o600, 200, 421)
    assert not path.exists()


async def test_an_application_that_serves_the_pages_says_who_sent_a_request(database: str) -> None:
    async def known(request: Request) -> Person | None:
        ann = Person("ui:ann", (Grant("viewer"),), "Ann")
        return ann if request.headers.get("x-key") == "known" else None

    entry = Entry(authenticate=known, hosts=("jobs.example",))
    app = create_app(database, entry=entry)
    transport = httpx.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://jobs.example") as client,
    ):
        page = await client.get("/runs", headers={"x-key": "known"})
        nobody = await client.get("/runs")
        elsewhere = await client.get("/runs", headers={"x-key": "known", "host": "evil.example"})

    assert (page.status_code, nobody.status_code, elsewhere.status_code) == (200, 401, 421)
    assert "<bdi>Ann</bdi>" in page.text
    assert 'href="/account"' not in page.text


@pytest.mark.parametrize(
    "hosts",
    [["*"], [".example.com"], ["jobs.example", "jobs.example:8420"], ["a b"], [""], "jobs.example"],
)
def test_what_names_no_host_is_refused_with_the_rule(hosts: list[str]) -> None:
    with pytest.raises(ConfigError, match="the pages can't be reached by the host '") as refused:
        create_app("postgresql:///any", entry=Entry(hosts=hosts))

    assert "whole names or addresses" in str(refused.value.detail)


@pytest.mark.parametrize(
    ("path", "current", "document"),
    [("/", "/", "on-call"), ("/runs", "/runs", "states"), ("/calendars", "/schedules", "specs")],
)
async def test_mounted_pages_know_their_place_on_top_and_their_document(
    database: str, path: str, current: str, document: str
) -> None:
    async def known(_: Request) -> Person | None:
        return LOCAL

    pages = create_app(database, entry=Entry(authenticate=known))
    whole = Starlette(routes=[Mount("/jobs", pages)])
    transport = httpx.ASGITransport(app=whole)
    async with (
        pages.router.lifespan_context(pages),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        page = await client.get(f"/jobs{path}")

    assert page.status_code == 200
    [marked] = re.findall(r'href="([^"]+)" data-key="\w" aria-current="page"', page.text)
    assert marked == f"/jobs{current}"
    assert f'href="/jobs/docs/{document}">About this page' in page.text


async def test_without_any_way_in_nobody_comes_in(database: str) -> None:
    transport = httpx.ASGITransport(app=create_app(database))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.get("/runs")).status_code == 401
        assert (await client.get("/livez")).status_code == 200


async def test_the_pages_of_two_ports_do_not_take_each_other_s_cookie(database: str) -> None:
    one, other = serving(database), serving(database)
    async with browsing(one.url) as client:
        (name,) = client.cookies
    assert name == f"pgcron_{httpx.URL(one.url).port}"
    assert name != f"pgcron_{httpx.URL(other.url).port}"
    for server in (one, other):
        running = asyncio.create_task(server.run())
        server.stop()
        await running
