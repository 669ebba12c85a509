"""Users with passwords: sessions, and how guessing is slowed down."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.product.db import migrate
from tests.servers import ThrowAwayServer
from tests.waiting import until
from tests.web.login_sites import PASSWORD, Login, Visitor


async def checks(login: Login, url: str) -> float:
    """How many passwords were compared with a hash."""
    header = await login.token("reads-metrics")
    async with Visitor(url) as program:
        text = (await program.get("/metrics", **header)).text
    found = re.search(r"^pgcron_password_checks_total (\S+)$", text, re.MULTILINE)
    assert found is not None
    return float(found[1])


async def test_a_user_logs_in_works_and_logs_out(login: Login) -> None:
    await login.add("alice")
    async with login.serve(local=True) as url, Visitor(url) as visitor:
        before = await visitor.get("/runs?state=dead")
        form = await visitor.get(before.headers["location"])
        entered = await visitor.log_in("alice", next="/runs?state=dead")
        cookie = entered.headers["set-cookie"].lower()
        page = await visitor.get("/")
        paused = await visitor.post("/queues/mail/pause")
        (by,) = await login.execute("SELECT paused_by FROM pgcron.queue WHERE name = 'mail'")
        left = await visitor.post("/logout")
        after = await visitor.get("/")

    assert (before.status_code, form.status_code) == (303, 200)
    assert 'value="/runs?state=dead"' in form.text
    assert (entered.status_code, entered.headers["location"]) == (303, "/runs?state=dead")
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert page.status_code == 200
    assert ">alice<" in page.text
    assert (paused.status_code, by["paused_by"]) == (303, "ui:alice")
    assert (left.status_code, after.status_code) == (303, 303)
    audited = await login.audited()
    assert ("ui:alice", "login", "alice", "done") in audited
    assert ("ui:alice", "logout", "alice", "done") in audited
    (by,) = await login.execute("SELECT * FROM pgcron.audit WHERE verb = 'logout'")
    assert (by["interface"], by["address"]) == ("ui", "127.0.0.1")


async def test_an_unknown_user_is_answered_as_a_wrong_password_is_and_costs_as_much(
    login: Login,
) -> None:
    await login.add("alice")
    async with login.serve(local=True) as url, Visitor(url) as visitor:
        begun = await checks(login, url)
        wrong = await visitor.log_in("alice", "not the password")
        after_wrong = await checks(login, url)
        unknown = await visitor.log_in("mallory", "not the password")
        after_unknown = await checks(login, url)

    assert (wrong.status_code, unknown.status_code) == (403, 403)
    same = [
        re.sub(r'alice|mallory|data-operation="\w+"', "", page.text) for page in (wrong, unknown)
    ]
    assert same[0] == same[1]
    assert (after_wrong - begun, after_unknown - after_wrong) == (1, 1)
    refused = [row for row in await login.audited() if row[3] == "refused"]
    assert refused == [
        ("ui:nobody", "login", "alice", "refused"),
        ("ui:nobody", "login", "", "refused"),
    ]


async def test_a_session_that_was_planted_before_the_login_is_worth_nothing(login: Login) -> None:
    await login.add("alice")
    async with login.serve(local=True) as url, Visitor(url) as alice, Visitor(url) as attacker:
        name = f"pgcron_{httpx.URL(url).port}"
        planted = "planted-by-somebody-else"
        for visitor in (alice, attacker):
            visitor.client.cookies.set(name, planted, domain="127.0.0.1")
        entered = await alice.log_in("alice")
        first = alice.client.cookies.get(name, domain="127.0.0.1")
        stranger = await attacker.get("/")

    assert entered.status_code == 303
    assert planted not in entered.headers["set-cookie"]
    assert first is not None
    assert stranger.status_code == 303
    kept = await login.execute("SELECT id FROM pgcron.web_session")
    assert planted.encode() not in {row["id"] for row in kept}


@pytest.mark.parametrize(
    "end",
    [
        ("users", "revoke", "alice"),
        ("users", "disable", "alice"),
        ("users", "remove", "alice"),
        ("users", "password", "alice"),
    ],
    ids=lambda command: command[1],
)
async def test_what_ends_a_session_holds_for_the_next_request(
    login: Login, end: tuple[str, ...]
) -> None:
    await login.add("alice")
    async with login.serve(local=True) as url, Visitor(url) as visitor:
        await visitor.log_in("alice")
        before = await visitor.get("/")
        await login.command(*end, typed="another long password")
        after = await visitor.get("/")

    assert (before.status_code, after.status_code) == (200, 303)


@pytest.mark.parametrize("ends", ["expires_at = now()", "last_seen_at = now() - idle"])
async def test_a_session_is_over_after_its_time(login: Login, ends: str) -> None:
    await login.add("alice")
    async with login.serve(local=True) as url, Visitor(url) as visitor:
        await visitor.log_in("alice")
        await login.execute(f"UPDATE pgcron.web_session SET {ends}")
        after = await visitor.get("/")

    assert after.status_code == 303


async def test_guesses_on_two_servers_count_together_and_delay_nobody_at_his_usual_place(
    login: Login,
) -> None:
    await login.add("alice")
    async with (
        login.serve(local=True) as one,
        login.serve(local=True) as other,
        Visitor(one, "127.0.7.1") as at_home,
        Visitor(one, "127.0.1.1") as guesser,
        Visitor(other, "127.0.2.2") as second,
    ):
        await at_home.log_in("alice")
        for visitor in (guesser, second, guesser, second, guesser):
            assert (await visitor.log_in("alice", "a wrong password")).status_code == 403
        too_soon = [await visitor.log_in("alice") for visitor in (guesser, second)]
        unknown = await second.log_in("mallory")
        usual = await at_home.log_in("alice")

    assert [answer.status_code for answer in too_soon] == [429, 429]
    assert "Too many attempts have failed" in too_soon[0].text
    assert (unknown.status_code, usual.status_code) == (403, 303)


async def test_no_name_that_is_typed_elsewhere_delays_a_user_at_his_usual_place(
    login: Login,
) -> None:
    await login.add("alice")
    await login.execute("UPDATE pgcron.web_user SET networks = '{10.0.0.0/24}'")
    begin = "SELECT wait FROM pgcron.begin_login($1, $2)"
    for name in ("alice", "alice 10.0.0.0/24"):
        for _ in range(5):
            assert (await login.execute(begin, name, "10.9.9.9"))[0]["wait"] == 0

    assert (await login.execute(begin, "alice", "10.0.0.7"))[0]["wait"] == 0


async def test_the_delay_doubles_up_to_a_quarter_of_an_hour(login: Login) -> None:
    waits = []
    for failures in (4, 5, 6, 9, 15, 900):
        rows = await login.execute(
            "SELECT extract(epoch FROM pgcron.login_wait(ROW('account x', $1::int, now(),"
            " clock_timestamp())::pgcron.login_failure))::int AS wait",
            failures,
        )
        waits.append(rows[0]["wait"])

    assert waits == [0, 1, 2, 16, 900, 900]


async def test_a_network_has_thirty_failures_in_ten_minutes_whatever_the_names(
    login: Login,
) -> None:
    await login.add("alice")
    begin = "SELECT wait FROM pgcron.begin_login($1, $2)"
    waits = [
        (await login.execute(begin, f"name-{number}", f"10.1.2.{number}"))[0]["wait"]
        for number in range(31)
    ]
    elsewhere = await login.execute(begin, "alice", "10.1.3.1")
    await login.execute(
        "UPDATE pgcron.login_failure SET since = since - interval '10 min' WHERE key LIKE 'net%'"
    )
    later = await login.execute(begin, "alice", "10.1.2.9")

    assert waits[:30] == [0.0] * 30
    assert 0 < waits[30] <= 600
    assert (elsewhere[0]["wait"], later[0]["wait"]) == (0, 0)


async def test_an_attempt_that_has_to_wait_leaves_no_row(login: Login) -> None:
    begin = """
        SELECT min(begun.wait) AS wait FROM generate_series(1, $1::int) number
        CROSS JOIN LATERAL pgcron.begin_login($2 || number, '10.1.2.3') begun"""
    count = "SELECT count(*) AS rows FROM pgcron.login_failure"
    await login.execute(begin, 30, "name-")
    before = await login.execute(count)
    more = await login.execute(begin, 100, "another-")

    assert more[0]["wait"] > 0
    assert before == await login.execute(count)


@pytest.mark.parametrize(
    "given",
    ["//evil.example", "/\\evil.example", "https://evil.example", "evil", "/a\tb", "/" * 2000],
)
async def test_a_login_never_leads_to_another_site(login: Login, given: str) -> None:
    await login.add("alice")
    async with login.serve(local=True) as url, Visitor(url) as visitor:
        entered = await visitor.log_in("alice", next=given)

    assert (entered.status_code, entered.headers["location"]) == (303, "/")


async def test_a_login_comes_from_a_page_of_the_site_and_nobody_logs_out_by_a_link(
    login: Login,
) -> None:
    await login.add("alice")
    async with login.serve(local=True) as url, Visitor(url) as visitor:
        fields = {"name": "alice", "password": PASSWORD}
        foreign = await visitor.client.post(
            "/login", data=fields, headers={"origin": "http://evil.example"}
        )
        await visitor.log_in("alice")
        link = await visitor.get("/logout")
        still = await visitor.get("/")

    assert (foreign.status_code, link.status_code, still.status_code) == (403, 405, 200)


async def test_addresses_and_methods_that_no_page_has_know_who_asks(login: Login) -> None:
    await login.add("alice", "viewer")
    async with login.serve(local=True) as url, Visitor(url) as visitor, Visitor(url) as nobody:
        await visitor.log_in("alice")
        pages = [await visitor.get(path) for path in ("/logout?tz=Asia/Tokyo", "/nowhere", "/runs")]
        pages.append(await visitor.post("/runs"))
        nobodys = await nobody.get("/logout")

    assert [page.status_code for page in (*pages, nobodys)] == [405, 404, 200, 405, 405]
    assert all("<bdi>alice</bdi>" in page.text for page in pages)
    menus = [re.findall(r'data-key="(.)"', page.text) for page in pages]
    assert menus[2] != re.findall(r'data-key="(.)"', nobodys.text)
    assert menus == [menus[2]] * 4
    assert ">Asia/Tokyo</span>" in pages[0].text


async def test_one_sees_and_ends_one_s_own_sessions_and_changes_one_s_password(
    login: Login,
) -> None:
    await login.add("alice")
    new = "another long password"
    async with (
        login.serve(local=True) as url,
        Visitor(url, **{"user-agent": "Netscape <b>"}) as here,
        Visitor(url) as there,
        Visitor(url) as third,
    ):
        for visitor in (here, there, third):
            await visitor.log_in("alice")
        page = await here.get("/account")
        listed = await login.command("users", "sessions", "alice")
        [own] = [row for row in listed if row["agent"].startswith("Netscape")]
        others = [row["session"] for row in listed if row is not own]
        ended = await here.post(f"/account/sessions/{others[0]}/end")
        after_one = [(await visitor.get("/")).status_code for visitor in (there, third)]
        wrong = await here.post("/account/password", current="a guess of mine", new=new)
        short = await here.post("/account/password", current=PASSWORD, new="short")
        right = await here.post("/account/password", current=PASSWORD, new=new)
        after_all = [(await visitor.get("/")).status_code for visitor in (here, there, third)]
        old, fresh = await third.log_in("alice"), await there.log_in("alice", new)

    assert "Netscape &lt;b&gt;" in page.text
    assert (ended.status_code, sorted(after_one)) == (303, [200, 303])
    assert (wrong.status_code, short.status_code, right.status_code) == (400, 400, 303)
    assert "at least 12 characters" in short.text
    assert after_all == [200, 303, 303]
    assert (old.status_code, fresh.status_code) == (403, 303)


async def test_a_password_is_set_only_where_passwords_log_in(login: Login) -> None:
    await login.add("alice")
    async with login.serve(local=True) as url, Visitor(url) as visitor:
        await visitor.log_in("alice")
        with_passwords = await visitor.get("/account")
        [session] = visitor.client.cookies.values()
    async with login.serve(proxy_addresses=["127.0.9.1"]) as url, Visitor(url) as visitor:
        port = httpx.URL(url).port
        visitor.client.cookies.set(f"pgcron_{port}", session, domain="127.0.0.1")
        without = await visitor.get("/account")

    assert "New password" in with_passwords.text
    assert "this one" in without.text  # the session still holds
    assert "New password" not in without.text


async def test_nobody_ends_the_session_of_another(login: Login) -> None:
    await login.add("alice")
    await login.add("bob")
    async with login.serve(local=True) as url, Visitor(url) as alice, Visitor(url) as bob:
        await alice.log_in("alice")
        await bob.log_in("bob")
        [session] = await login.command("users", "sessions", "alice")
        await bob.post(f"/account/sessions/{session['session']}/end")
        still = await alice.get("/")

    assert still.status_code == 200


async def test_a_short_password_is_refused_on_the_command_line(
    login: Login, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AssertionError, match="at least 12 characters"):
        await login.command("users", "add", "alice", typed="short")
    assert await login.command("users", "list") == []


async def test_who_was_let_in_goes_on_reading_while_the_database_is_away(
    mortal: ThrowAwayServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dsn = mortal.create_database("web")
    await migrate(dsn)
    login = Login(dsn, monkeypatch, capsys)
    await login.add("alice")
    async with login.serve(local=True) as url, Visitor(url) as alice, Visitor(url) as stranger:
        await alice.log_in("alice")
        stranger.client.cookies.set(f"pgcron_{httpx.URL(url).port}", "a guess", domain="127.0.0.1")
        before = [(await visitor.get("/")).status_code for visitor in (alice, stranger)]
        mortal.stop("immediate")

        async def is_old() -> httpx.Response | None:
            page = await alice.get("/")
            return page if page.status_code == 503 else None

        away = await until("it notices", is_old)
        nobody = await stranger.get("/")
        verb = await alice.post("/queues/mail/pause")
        new = await stranger.log_in("alice")
        mortal.start()

    assert before == [200, 303]
    assert away is not None
    assert "From memory." in away.text
    assert "The database is away" in nobody.text
    assert "From memory." not in nobody.text
    assert (nobody.status_code, verb.status_code, new.status_code) == (503, 503, 503)
