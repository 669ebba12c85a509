"""Tokens of programs, and users whom a proxy names."""

from __future__ import annotations

import asyncio
import json
import logging
import re

import asyncpg
import httpx
import pytest

from tests.db.control import waits_for_lock
from tests.sessions import own_session
from tests.waiting import until
from tests.web.login_sites import PASSWORD, Login, Visitor
from tests.web.tenants import rows_of_all

NEW_PASSWORD = "another long password"


async def roles(login: Login, header: dict[str, str]) -> str | None:
    """What a token may at this moment, as the pages are told by the database; None: nothing."""
    number, secret = header["authorization"].split("_", 2)[1:]
    rows = await login.execute(
        "SELECT to_jsonb(grants)::text AS grants FROM pgcron.user_of_token($1, sha256($2))"
        " WHERE name IS NOT NULL",
        number,
        secret.encode(),
    )
    return rows[0]["grants"] if rows else None


async def test_a_program_reads_and_acts_by_its_token_alone(login: Login) -> None:
    header = await login.token("deploy", "--role", "operator")
    async with login.serve(local=True) as url, Visitor(url) as program:
        read = await program.get("/runs", **header)
        done = await program.client.post("/queues/mail/pause", headers=header)
        (by,) = await login.execute("SELECT paused_by FROM pgcron.queue WHERE name = 'mail'")
        (row,) = await login.command("tokens", "list")
        kept = await login.execute("SELECT t::text AS text FROM pgcron.api_token t")

    assert (read.status_code, done.status_code) == (200, 303)
    assert re.fullmatch(r"ui:.+/deploy", by["paused_by"])
    assert "set-cookie" not in read.headers
    assert row["last_used_at"] is not None
    assert header["authorization"].rpartition("_")[2] not in kept[0]["text"]


@pytest.mark.parametrize(
    "given", ["Bearer nonsense", "Bearer", "bearer pgc_aaaaaaaa_" + "a" * 43, "SAME-ID"]
)
async def test_a_bad_token_is_nobody_s_whatever_else_the_request_brings(
    login: Login, given: str
) -> None:
    await login.add("alice")
    header = await login.token("deploy")
    if given == "SAME-ID":
        given = header["authorization"][:-43] + "a" * 43
    async with login.serve(local=True) as url, Visitor(url) as alice:
        await alice.log_in("alice")
        answer = await alice.get("/", authorization=given)
        posted = await alice.client.post(
            "/queues/mail/pause", headers={"authorization": given, "origin": "http://evil.example"}
        )

    assert (answer.status_code, posted.status_code) == (401, 401)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert await login.execute("SELECT FROM pgcron.queue WHERE paused_at IS NOT NULL") == []


async def test_a_token_ends(login: Login) -> None:
    await login.add("alice")
    over = await login.token("over")
    revoked = await login.token("revoked")
    owned = await login.token("owned", "--owner", "alice")
    async with login.serve(local=True) as url, Visitor(url) as program:
        before = [(await program.get("/", **each)).status_code for each in (over, revoked, owned)]
        await login.execute(
            "UPDATE pgcron.api_token SET created_at = now() - interval '2 days',"
            " expires_at = now() - interval '1 s' WHERE name = 'over'"
        )
        await login.command("tokens", "revoke", revoked["authorization"].split("_")[1])
        await login.command("users", "disable", "alice")
        await login.execute("UPDATE pgcron.api_token SET last_used_at = NULL")
        after = [(await program.get("/", **each)).status_code for each in (over, revoked, owned)]

    assert (before, after) == ([200] * 3, [401] * 3)
    left = await login.execute("SELECT FROM pgcron.role_grant WHERE subject_kind = 'token'")
    assert len(left) == 1  # that of the one that is over
    used = "SELECT FROM pgcron.api_token WHERE last_used_at IS NOT NULL"
    assert await login.execute(used) == []


async def test_a_token_never_may_more_than_its_owner_at_that_moment(login: Login) -> None:
    await login.add("alice")
    wide = await login.token("wide", "--role", "admin", "--owner", "alice")
    await login.execute("UPDATE pgcron.role_grant SET role = 'operator' WHERE subject = 'alice'")
    queue = await login.token(
        "narrow", "--role", "operator", "--scope", "queue:mail-out", "--owner", "alice"
    )
    before = await roles(login, wide), await roles(login, queue)
    await login.execute("DELETE FROM pgcron.role_grant WHERE subject = 'alice'")
    without = await roles(login, queue)
    await login.execute(
        "INSERT INTO pgcron.role_grant (subject_kind, subject, role, scope_kind, scope)"
        " VALUES ('user', 'alice', 'editor', 'queue', 'mail-*')"
    )

    assert before == ("[]", '[["operator", "queue", "mail-out"]]')
    assert without == "[]"
    assert await roles(login, queue) == '[["operator", "queue", "mail-out"]]'
    assert await roles(login, wide) == "[]"


async def test_a_person_makes_a_token_that_is_shown_once(login: Login) -> None:
    await login.add("alice", "editor")
    async with login.serve(local=True) as url, Visitor(url) as alice, Visitor(url) as program:
        await alice.log_in("alice")
        made = await alice.post("/account/tokens", name="ci", role="viewer", scopes="queue:mail")
        wrong = await alice.post("/account/tokens", name="no spaces", role="viewer")
        too_long = await alice.post("/account/tokens", name="ci", role="viewer", days="9000")
        no_scope = await alice.post("/account/tokens", name="ci", role="viewer", scopes="foo:mail")
        broad = await alice.post("/account/tokens", name="ci", role="admin")
        found = re.search(r"pgc_\w{8}_[\w-]{43}", made.text)
        assert found is not None
        page = await alice.get("/account")
        header = {"authorization": f"Bearer {found[0]}"}
        used = await program.get("/runs", **header)
        account = [
            await program.get("/account", **header),
            await program.client.post("/account/tokens", headers=header, data={"name": "more"}),
            await program.client.post("/account/sessions/end", headers=header),
        ]
        await alice.post(f"/account/tokens/{found[0].split('_')[1]}/revoke")
        after = await program.get("/runs", **header)

    assert (made.status_code, used.status_code, after.status_code) == (200, 200, 401)
    assert [each.status_code for each in (wrong, too_long, no_scope, broad)] == [400] * 4
    assert "days 9000 is out of range" in too_long.text
    assert "&#39;foo:mail&#39; is not a scope" in no_scope.text
    assert '<input name="scopes" value="foo:mail"' in no_scope.text
    assert "<option selected>admin</option>" in broad.text
    assert "admin of everything is more than user &#39;alice&#39; has" in broad.text
    assert "&#39;no spaces&#39; is not the name of a token" in wrong.text
    assert found[0] not in page.text
    assert "Scopes, with spaces between (empty: everything)</span>" in page.text
    assert "viewer queue:mail" in page.text
    assert [answer.status_code for answer in account] == [403, 403, 403]


async def test_a_thief_of_a_viewer_s_session_has_a_token_until_its_owner_revokes_it(
    login: Login,
) -> None:
    await login.add("alice", "viewer")
    async with (
        login.serve(local=True) as url,
        Visitor(url) as alice,
        Visitor(url) as home,
        Visitor(url) as thief,
        Visitor(url) as program,
    ):
        for visitor in (alice, home):
            await visitor.log_in("alice")
        thief.client.cookies.update(alice.client.cookies)
        made = await thief.post("/account/tokens", name="backup", role="viewer", days="365")
        found = re.search(r"pgc_\w{8}_[\w-]{43}", made.text)
        assert found is not None
        header = {"authorization": f"Bearer {found[0]}"}
        refused = [
            await thief.post("/account/tokens", name="more", role="operator"),
            await thief.post("/account/password", current="a guess of mine", new=NEW_PASSWORD),
            await thief.post("/queues/mail/pause"),
            await program.client.post("/queues/mail/pause", headers=header),
            await program.client.post("/account/tokens", headers=header, data={"name": "more"}),
        ]
        ended = await thief.post("/account/sessions/end"), await home.get("/")
        at_first = await got(thief, program, header)
        await home.log_in("alice")
        seen = await home.get("/account")
        await home.post(f"/account/tokens/{found[0].split('_')[1]}/revoke")
        revoked = await got(thief, program, header)

    assert [answer.status_code for answer in refused] == [400, 400, 403, 403, 403]
    assert [answer.status_code for answer in ended] == [303] * 2
    assert (at_first, revoked) == ((200, 200), (200, 401))
    assert re.search(rf"backup.*{found[0].split('_')[1]}", seen.text)
    assert ("ui:alice", "add", "backup", "done") in await login.audited()


async def got(thief: Visitor, program: Visitor, header: dict[str, str]) -> tuple[int, int]:
    """What a stolen session and a token get."""
    pages = await thief.get("/runs"), await program.get("/runs", **header)
    return pages[0].status_code, pages[1].status_code


async def test_a_new_password_leaves_a_thief_no_session(login: Login) -> None:
    await login.add("alice", "viewer")
    header = await login.token("hers", "--owner", "alice")
    async with (
        login.serve(local=True) as url,
        Visitor(url) as alice,
        Visitor(url) as home,
        Visitor(url) as thief,
    ):
        for visitor in (alice, home):
            await visitor.log_in("alice")
        thief.client.cookies.update(alice.client.cookies)
        before = await got(thief, home, header)
        changed = await alice.post("/account/password", current=PASSWORD, new=NEW_PASSWORD)
        after = await got(thief, home, header)
        hers = await alice.get(changed.headers["location"])
        others = await home.get("/")
        listed = await login.command("users", "sessions", "alice")
        entered = await home.log_in("alice", NEW_PASSWORD)

    assert (before, after) == ((200, 200), (303, 200))
    assert (changed.status_code, hers.status_code) == (303, 200)
    assert "Tokens stay" in hers.text
    assert (others.status_code, len(listed), entered.status_code) == (303, 1, 303)
    [row] = await login.execute("SELECT after FROM pgcron.audit WHERE verb = 'set password'")
    assert json.loads(row["after"]) == {"sessions": 1}


@pytest.mark.parametrize("verb", ["revoke", "disable"])
async def test_what_a_thief_has_ends_for_good(
    login: Login, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    await login.add("alice", "viewer")
    await login.add("bob", "viewer")
    header = await login.token("hers", "--owner", "alice")
    of_bob = await login.token("his", "--owner", "bob")
    async with login.serve(local=True) as url, Visitor(url) as thief, Visitor(url) as bob:
        await thief.log_in("alice")
        await bob.log_in("bob")
        before = await got(thief, thief, header)
        [done] = await login.command("users", verb, "alice")
        ended = await got(thief, bob, header)
        await login.command("users", "enable", "alice")
        enabled = await got(thief, bob, header)
        of_others = await got(bob, bob, of_bob)

    assert (before, ended, enabled) == ((200, 200), (303, 401), (303, 401))
    assert of_others == (200, 200)
    [row] = await login.execute(
        "SELECT after FROM pgcron.audit WHERE (verb, name) = ('end sessions', 'alice')"
    )
    assert json.loads(row["after"]) == {"sessions": 1, "tokens": 1}
    assert (verb == "disable") is ("disable" in {row[1] for row in await login.audited()})
    assert verb == "disable" or done == {"user": "alice", "sessions": 1, "tokens": 1}
    kept = await login.execute("SELECT subject FROM pgcron.role_grant WHERE subject_kind = 'token'")
    assert [row["subject"] for row in kept] == [of_bob["authorization"].split("_")[1]]


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/account/password", {"current": PASSWORD, "new": NEW_PASSWORD}),
        ("/account/tokens", {"name": "mine"}),
    ],
)
async def test_what_a_session_has_begun_when_it_is_ended_leaves_nothing(
    login: Login, path: str, form: dict[str, str]
) -> None:
    await login.add("alice", "viewer")
    connection = await own_session(login.dsn)
    async with login.serve(local=True) as url, Visitor(url) as thief, Visitor(url) as alice:
        await thief.log_in("alice")
        async with connection.transaction():
            await connection.execute("SELECT pgcron.revoke_sessions('alice')")
            posting = asyncio.create_task(thief.post(path, **form))
            await until(
                "the request waits",
                lambda: connection.fetchval(
                    "SELECT count(*) > 0 FROM pg_stat_activity"
                    " WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
                ),
            )
        answer = await posting
        entered = await alice.log_in("alice")
    tokens = await connection.fetch("SELECT FROM pgcron.api_token")
    await connection.close()

    assert answer.status_code == 403
    assert "your session has ended meanwhile" in answer.text
    assert (entered.status_code, tokens) == (303, [])


async def test_a_token_that_is_made_while_its_owner_is_disabled_is_refused(login: Login) -> None:
    await login.add("alice", "viewer")
    add = "SELECT pgcron.add_token($1, sha256('x'), 'mine', 'viewer', owner => 'alice')"
    disable = "SELECT pgcron.disable_user('alice', true)"
    first, second = [await own_session(login.dsn) for _ in range(2)]
    async with first.transaction():
        await first.execute(add, "a" * 8)
        disabling = asyncio.create_task(second.execute(disable))
        await waits_for_lock(first, second)
    await disabling
    assert await first.fetch("SELECT FROM pgcron.api_token") == []
    await second.execute("SELECT pgcron.disable_user('alice', false)")

    async with first.transaction():
        await first.execute(disable)
        adding = asyncio.create_task(second.execute(add, "b" * 8))
        await waits_for_lock(first, second)
    with pytest.raises(asyncpg.PostgresError, match="is more than user 'alice' has"):
        await adding
    assert await first.fetch("SELECT FROM pgcron.api_token") == []
    for session in (first, second):
        await session.close()


@pytest.mark.parametrize(
    "days", ["0", "366", "-1", "1.5", "ten", "0000003650000000000", "9" * 5000]
)
async def test_a_token_s_days_are_a_number_within_a_year(login: Login, days: str) -> None:
    await login.add("alice", "editor")
    async with login.serve(local=True) as url, Visitor(url) as alice:
        await alice.log_in("alice")
        refused = await alice.post("/account/tokens", name="ci", role="viewer", days=days)

    assert refused.status_code == 400
    assert f"days {days[:100]} is out of range" in refused.text
    assert "It is a whole number from 1 to 365." in refused.text
    assert await login.execute("SELECT FROM pgcron.api_token") == []


async def test_of_two_who_revoke_a_token_at_once_one_is_told_that_there_is_none(
    login: Login,
) -> None:
    header = await login.token("deploy")
    revoke = "SELECT pgcron.revoke_token($1)"
    number = header["authorization"].split("_")[1]
    first, second = [await own_session(login.dsn) for _ in range(2)]
    async with first.transaction():
        await first.execute(revoke, number)
        revoking = asyncio.create_task(second.execute(revoke, number))
        await waits_for_lock(first, second)
    with pytest.raises(asyncpg.PostgresError, match="does not exist"):
        await revoking
    for session in (first, second):
        await session.close()

    recorded = "SELECT FROM pgcron.audit WHERE (verb, kind, name) = ('revoke', 'token', 'deploy')"
    assert len(await login.execute(recorded)) == 1


# Shown, refused, wrong, not there, and broken (`break_calendars`).
READ = ("/", "/account", "/audit", "/queues?nte=1", "/schedules/none", "/nowhere", "/logout")
BROKEN = "/calendars/days"
DONE: tuple[tuple[str, dict[str, str]], ...] = (
    ("/queues/mail/pause", {"note": "late"}),
    ("/queues/mail/pause", {"nte": "late"}),
    ("/runs/1/cancel", {}),
    ("/calendars", {"name": "more", "content": "sun"}),
    ("/account/tokens", {"name": "no spaces"}),
    ("/account/password", {"current": "not the password", "new": "short"}),
    ("/nowhere", {}),
)


async def break_calendars(login: Login) -> None:
    """Such that the page of one can't be made, which is nobody's mistake but the server's."""
    await login.execute("SELECT pgcron.put_calendar('days', 'sat')")
    await login.execute("ALTER FUNCTION pgcron.calendars_of RENAME TO gone")
    await login.execute(
        "CREATE FUNCTION pgcron.calendars_of(text) RETURNS text LANGUAGE sql RETURN NULL"
    )


async def answers_to(visitor: Visitor, **headers: str) -> list[httpx.Response]:
    """What is answered to everything above, with these headers."""
    sent = {"origin": visitor.url.rstrip("/"), **headers}
    read = [await visitor.client.get(path, headers=sent) for path in (*READ, BROKEN)]
    done = [await visitor.client.post(path, data=fields, headers=sent) for path, fields in DONE]
    return [*read, *done]


async def test_no_token_and_no_session_stands_in_a_log_a_row_a_redirect_or_an_error(
    login: Login, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    for of_the_browser in ("httpx", "httpcore"):
        caplog.set_level(logging.WARNING, of_the_browser)
    await login.add("alice", "operator")
    header = await login.token("deploy", "--role", "operator")
    await break_calendars(login)
    async with login.serve(local=True) as url, Visitor(url) as alice, Visitor(url) as program:
        entered = await alice.log_in("alice", next="/runs")
        [(cookie, session)] = alice.client.cookies.items()
        answers = [*await answers_to(alice), *await answers_to(program, **header)]
        await alice.post("/logout")
        await login.command("tokens", "revoke", header["authorization"].split("_")[1])
        ended = {"cookie": f"{cookie}={session}"}
        over = [*await answers_to(program, **ended), *await answers_to(program, **header)]
    rows = {**await rows_of_all(login.dsn), "audit": str(await audit_of(login))}
    printed = capsys.readouterr()

    statuses = {answer.status_code for answer in answers}
    assert {200, 303, 400, 403, 404, 405, 500} <= statuses
    assert {answer.status_code for answer in over} >= {303, 401}
    assert "of calendar failed" in caplog.text
    assert "Traceback" in caplog.text
    places = {
        **rows,  # by the names of the tables
        "log of the pages": caplog.text + printed.out + printed.err,
        "redirect of the login": entered.headers["location"],
        "answers": str([(each.headers.multi_items(), each.text) for each in answers + over]),
    }
    for secret in (session, header["authorization"][-43:]):
        assert [name for name, text in places.items() if secret in (text or "")] == []


async def audit_of(login: Login) -> list[str]:
    rows = await login.execute("SELECT a::text AS text FROM pgcron.audit a")
    assert {"refused", "done"} <= {row[3] for row in await login.audited()}
    return [row["text"] for row in rows]


async def test_nobody_revokes_the_token_of_another(login: Login) -> None:
    await login.add("alice")
    await login.add("bob")
    header = await login.token("hers", "--owner", "alice")
    async with login.serve(local=True) as url, Visitor(url) as bob:
        await bob.log_in("bob")
        tried = await bob.post(f"/account/tokens/{header['authorization'].split('_')[1]}/revoke")
        still = await bob.get("/", **header)

    assert (tried.status_code, still.status_code) == (404, 200)


async def test_a_listed_proxy_names_the_user_and_nobody_else_does(login: Login) -> None:
    await login.execute(
        "INSERT INTO pgcron.role_grant (subject_kind, subject, role)"
        " VALUES ('group', 'on call', 'operator')"
    )
    names = {"x-forwarded-user": "ann@corp.example", "x-forwarded-groups": "staff, on call"}
    async with (
        login.serve(proxy_addresses=["127.0.9.1"]) as url,
        Visitor(url, "127.0.9.1") as proxy,
        Visitor(url, "127.0.9.2") as liar,
    ):
        page = await proxy.get("/account", **names)
        paused = await proxy.client.post(
            "/queues/mail/pause", headers={**names, "origin": url.rstrip("/")}
        )
        (by,) = await login.execute("SELECT paused_by FROM pgcron.queue WHERE name = 'mail'")
        nameless = await proxy.get("/account")
        twice = await proxy.client.get(
            "/account", headers=[("x-forwarded-user", "ann"), ("x-forwarded-user", "root")]
        )
        odd = await proxy.get("/account", **{"x-forwarded-user": "ann <b>"})
        lied = await liar.get("/account", **names)
        made = await proxy.client.post(
            "/account/tokens",
            data={"name": "hers", "role": "operator"},
            headers={**names, "origin": url.rstrip("/")},
        )
        found = re.search(r"pgc_\w{8}_[\w-]{43}", made.text)
        assert found is not None
        used = await liar.get("/runs", authorization=f"Bearer {found[0]}")
        may = await roles(login, {"authorization": f"Bearer {found[0]}"})
        await proxy.get("/account", **{**names, "x-forwarded-groups": "staff"})
        after_leaving = await roles(login, {"authorization": f"Bearer {found[0]}"})
        await login.command("users", "disable", "ann@corp.example")
        disabled = await proxy.get("/account", **names)

    assert (page.status_code, paused.status_code) == (200, 303)
    assert "operator of everything" in page.text
    assert by["paused_by"] == "ui:ann@corp.example"
    assert [each.status_code for each in (nameless, twice, odd, lied)] == [303] * 4
    assert (used.status_code, may) == (200, '[["operator", "all", "*"]]')
    assert after_leaving == "[]"
    assert disabled.status_code == 303


@pytest.mark.parametrize(
    ("forwarded", "known"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("198.51.100.1, 203.0.113.7", "203.0.113.7"),
        ("203.0.113.7, 127.0.9.1", "203.0.113.7"),
        ("nonsense", "127.0.9.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
    ],
)
async def test_the_address_of_a_login_and_of_a_verb_is_the_last_that_is_no_proxy_s(
    login: Login, forwarded: str, known: str
) -> None:
    await login.add("alice", "operator")
    async with (
        login.serve(local=True, proxy_addresses=["127.0.9.0/24"]) as url,
        Visitor(url, "127.0.9.1", **{"x-forwarded-for": forwarded}) as through,
        Visitor(url, "127.0.8.1", **{"x-forwarded-for": forwarded}) as direct,
    ):
        await through.log_in("alice")
        await direct.log_in("alice")
        assert (await through.post("/queues/mail/pause")).status_code == 303
        refused = await through.post("/calendars", name="days", content="sat")
    rows = await login.execute("SELECT address FROM pgcron.web_session ORDER BY created_at")
    verbs = await login.execute(
        "SELECT address, outcome FROM pgcron.audit WHERE verb IN ('pause', 'edit')"
    )

    assert [row["address"] for row in rows] == [known, "127.0.8.1"]
    assert refused.status_code == 403
    assert {tuple(row) for row in verbs} == {(known, "done"), (known, "refused")}


async def test_groups_that_a_proxy_named_are_not_those_of_who_logs_in_by_password(
    login: Login,
) -> None:
    await login.execute(
        "INSERT INTO pgcron.role_grant (subject_kind, subject, role)"
        " VALUES ('group', 'on call', 'admin')"
    )
    await login.add("bob", "viewer")
    names = {"x-forwarded-user": "bob", "x-forwarded-groups": "on call"}
    async with (
        login.serve(local=True, proxy_addresses=["127.0.9.1"]) as url,
        Visitor(url, "127.0.9.1") as proxy,
        Visitor(url) as bob,
    ):
        by_proxy = await proxy.get("/account", **names)
        await bob.log_in("bob")
        by_password = await bob.get("/account")

    assert "admin of everything" in by_proxy.text
    assert "viewer of everything" in by_password.text
    assert "admin of everything" not in by_password.text
