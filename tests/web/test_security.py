from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from pgcron_ha.assets import STATIC, TEMPLATES
from pgcron_ha.errors import ConfigError
from tests.house.checkout import ROOT
from tests.product.config import Address
from tests.product.web import MOST_BODY_BYTES, ROUTES, WebRoute, require_loopback
from tests.web.conftest import Site


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.1", "example.com", "127.0.0.1.nip.io"]
)
def test_it_listens_to_this_machine_only(host: str) -> None:
    with pytest.raises(ConfigError, match="the web can't listen on"):
        require_loopback(Address(host, 8420))


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("localhost", True),
        ("LOCALHOST:8420", True),
        ("127.0.0.1:1", True),
        ("[::1]:8420", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1@evil.example", False),
        ("127.0.0.1.evil.example:8420", False),
        ("evil.example:127.0.0.1", False),
        ("[::1].evil.example", False),
        ("[::2]", False),
        ("::1", False),
        ("localhost:123456", False),
        ("localhost.", False),
        ("127.0.0.2", False),
        ("", False),
    ],
)
async def test_only_names_of_this_machine_are_answered(
    read_site: Site, host: str, is_own: bool
) -> None:
    answer = await read_site.get("/livez", host=host)

    assert answer.status_code == (200 if is_own else 421)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": "SELF"}, 403),
        ({"origin": "SELF"}, 404),
        ({"sec-fetch-site": "same-origin"}, 404),
    ],
)
async def test_only_our_own_pages_may_change_anything(
    read_site: Site, headers: dict[str, str], status: int
) -> None:
    own = read_site.url.rstrip("/")
    sent = {name: value.replace("SELF", own) for name, value in headers.items()}

    answer = await read_site.client.post("/schedules/nobody/run", headers=sent)

    assert answer.status_code == status


@pytest.mark.parametrize("route", [route for route in ROUTES if route.method == "POST"])
async def test_no_verb_answers_a_get(read_site: Site, route: WebRoute) -> None:
    path = route.path.replace("{name}", "x").replace("{id}", "1")
    pages = [page for page in ROUTES if page.method == "GET" and page.path == route.path]

    answer = await read_site.get(path)

    # Without login there is no page to log in.
    assert answer.status_code == (405 if not pages else 404 if path == "/login" else 200)
    assert route.endpoint not in [page.endpoint for page in ROUTES if page.method == "GET"]


async def test_other_methods_and_large_bodies_are_refused(site: Site) -> None:
    origin = {"origin": site.url.rstrip("/")}
    deleted = await site.client.delete("/schedules/x", headers=origin)
    large = await site.client.post(
        "/schedules/x/pause", content=b"n" * (MOST_BODY_BYTES + 1), headers=origin
    )

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(MOST_BODY_BYTES // 1024 + 2):
            yield b"n" * 1024

    form = {**origin, "content-type": "application/x-www-form-urlencoded"}
    streamed = await site.client.post("/schedules/x/pause", content=chunks(), headers=form)

    assert (deleted.status_code, large.status_code, streamed.status_code) == (405, 413, 413)


async def test_a_form_with_unknown_fields_or_another_type_is_refused(site: Site) -> None:
    origin = {"origin": site.url.rstrip("/")}
    unknown = await site.post("/schedules/x/pause", nte="typo")
    json = await site.client.post("/schedules/x/pause", json={"note": "x"}, headers=origin)

    assert unknown.status_code == 400
    assert "Did you mean &#39;note&#39;?" in unknown.text
    assert json.status_code == 400


@pytest.mark.parametrize("path", ["/", "/schedules", "/nowhere", "/livez", "/metrics"])
async def test_every_answer_carries_the_headers(read_site: Site, path: str) -> None:
    answer = await read_site.get(path)

    policy = dict(
        part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "server" not in answer.headers
    assert "set-cookie" not in answer.headers


def test_every_route_says_what_it_needs() -> None:
    open_verbs = [r.path for r in ROUTES if r.method == "POST" and r.permission == "open"]
    assert open_verbs == ["/login", "/logout"]
    reading = {route.permission for route in ROUTES if route.method == "GET"}
    assert [p for p in reading if not p.endswith((":read", ":logs")) and p != "open"] == []


def test_templates_and_code_leave_escaping_alone() -> None:
    for path in TEMPLATES.rglob("*.html"):
        text = path.read_text()
        assert not re.search(r"\|\s*safe\b|autoescape|<script(?! src=)|\sstyle=|\son\w+=", text), (
            path
        )
        assert text.count("\n") <= 150, path
    for path in (ROOT / "pgcron_ha" / "web").rglob("*.py"):
        # Documents are files of the package; HTML in them is shown as text.
        assert path.name == "docs.py" or "markupsafe" not in path.read_text(), path
    assert "innerHTML" not in (STATIC / "app.js").read_text()


async def test_static_files_are_kept_for_ever_under_their_hash(read_site: Site) -> None:
    page = await read_site.get("/")
    (style,) = re.findall(r'href="(/static/app\.[0-9a-f]{12}\.css)"', page.text)

    found = await read_site.get(style)
    wrong = await read_site.get("/static/app.css")
    outside = await read_site.get("/static/..%2f..%2fpyproject.toml")

    assert found.status_code == 200
    assert "immutable" in found.headers["cache-control"]
    assert (wrong.status_code, outside.status_code) == (404, 404)
