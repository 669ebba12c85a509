from __future__ import annotations

import gzip
import re
from collections.abc import AsyncIterator

import httpx
import pytest

from pgcron_ha.assets import STATIC, TEMPLATES
from pgcron_ha.errors import ConfigError
from tests.house.checkout import ROOT
from tests.product.config import Address
from tests.product.web import MOST_BODY_BYTES, ROUTES, WebRoute, require_loopback
from tests.web.conftest import Site
from tests.web.login_sites import PASSWORD, Login, Visitor
from tests.web.tenants import said


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


@pytest.mark.parametrize("padding", [0, MOST_BODY_BYTES], ids=["as it is", "a bomb"])
async def test_a_compressed_form_is_not_inflated(site: Site, padding: int) -> None:
    sent = {
        "origin": site.url.rstrip("/"),
        "content-type": "application/x-www-form-urlencoded",
        "content-encoding": "gzip",
    }
    packed = gzip.compress(b"note=" + b"x" * padding, mtime=0)

    compressed = await site.client.post("/queues/mail/pause", content=packed, headers=sent)
    before = await site.get("/queues/mail")
    # The header alone changes nothing: what came is what is read.
    plain = await site.client.post("/queues/mail/pause", content=b"note=late", headers=sent)
    after = await site.get("/queues/mail")

    assert (compressed.status_code, plain.status_code) == (400, 303)
    assert "the form has an unknown field" in compressed.text
    assert ("/queues/mail/resume" in before.text, "late" in after.text) == (False, True)


def seen(answer: httpx.Response) -> tuple[object, ...]:
    """What a browser makes of an answer: where it leads, what it keeps, what it shows."""
    kept = ("location", "set-cookie", "strict-transport-security", "allow")
    headers = [answer.headers.get(name) for name in kept]
    links = re.findall(r'(?:href|src|action)="([^"]*)"', answer.text)
    return answer.status_code, headers, links, said(answer.text)


@pytest.mark.parametrize(
    "headers",
    [
        {"x-forwarded-host": "evil.example"},
        {"x-forwarded-proto": "https"},
        {"forwarded": "for=127.0.9.1;host=evil.example;proto=https"},
        {"x-forwarded-prefix": "/evil"},
        {"x-original-url": "/queues/mail"},
        {"x-rewrite-url": "/queues/mail"},
        {"x-http-method-override": "POST"},
        {"x-forwarded-user": "alice", "x-forwarded-groups": "on call"},
    ],
    ids=lambda headers: next(iter(headers)),
)
async def test_what_a_proxy_may_say_changes_nothing_when_others_say_it(
    login: Login, headers: dict[str, str]
) -> None:
    paths = ("/", "/queues", "/account", "/queues/mail/pause", "/logout", "/login", "/nowhere")
    await login.add("alice")
    async with (
        login.serve(local=True, proxy_addresses=["127.0.9.1"]) as url,
        Visitor(url, "127.0.9.2") as alice,
        Visitor(url, "127.0.9.2") as nobody,
    ):
        await alice.log_in("alice")
        before = await login.audited()
        answers = [
            [seen(await visitor.get(path, **more)) for more in ({}, headers)]
            for visitor in (alice, nobody)
            for path in paths
        ]
        foreign = {**headers, "origin": "https://evil.example"}
        forged = await alice.client.post("/queues/mail/pause", headers=foreign)
        written = await login.audited()
        paused = await login.execute("SELECT FROM pgcron.queue WHERE paused_at IS NOT NULL")
        fields = {"name": "alice", "password": PASSWORD}
        own = {**headers, "origin": url.rstrip("/")}
        entered = await nobody.client.post("/login", data=fields, headers=own)

    assert [tricked for plain, tricked in answers] == [plain for plain, tricked in answers]
    assert [plain[0] for plain, _ in answers[: len(paths)]] == [200, 200, 200, 405, 405, 200, 404]
    assert [plain[0] for plain, _ in answers[len(paths) :]] == [303, 303, 303, 405, 405, 200, 404]
    assert (forged.status_code, written, paused) == (403, before, [])
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert entered.headers["set-cookie"].startswith(f"pgcron_{httpx.URL(url).port}=")


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
