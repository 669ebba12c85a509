"""Pages that read as one role and change as another."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import httpx
import pytest

from tests.cli.conftest import Execute, dsn_of
from tests.cli.test_web import Start
from tests.cli.test_web import start as start  # a fixture
from tests.entering import cookies
from tests.product.cli import statements
from tests.waiting import wait_for

Roles = dict[str, str]
PARTS = {"viewer": ("viewer", "auditor"), "operator": ("operator", "scheduler", "login")}


@pytest.fixture
def roles(database: str, execute: Execute) -> Iterator[Roles]:
    """A role that reads and one for the buttons, by their first parts."""
    found = {part: f"{part} of {urlsplit(database).path[1:]}" for part in PARTS}
    for part, name in found.items():
        execute(f'CREATE ROLE "{name}" LOGIN')
        for each in PARTS[part]:
            for statement in statements(each, name, "pgcron"):
                execute(statement)
    yield found
    for name in found.values():
        execute(f'DROP OWNED BY "{name}"; DROP ROLE "{name}"')


def serving(start: Start, monkeypatch: pytest.MonkeyPatch, **dsns: str) -> str:
    for setting, dsn in dsns.items():
        monkeypatch.setenv(f"PGCRON_HA_{setting.upper()}", dsn)
    _, url = start("web", "--listen", "127.0.0.1:0")
    wait_for("it is ready", lambda: httpx.get(url + "readyz").status_code == 200)
    return url


def pause(url: str) -> httpx.Response:
    path, origin = url + "queues/default/pause", {"origin": url.rstrip("/")}
    return httpx.post(path, headers=origin, cookies=cookies(url))


def sessions(execute: Execute) -> list[tuple[str, str]]:
    """The users of the sessions of the pages."""
    return execute(
        "SELECT DISTINCT usename::text, application_name FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'pgcron_ha %'"
    )


def test_pages_read_as_one_role_and_change_as_another(
    start: Start, database: str, execute: Execute, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = serving(
        start,
        monkeypatch,
        web_dsn=dsn_of(roles["viewer"], database),
        web_write_dsn=dsn_of(roles["operator"], database),
    )

    for page in ("queues", "audit", "roles"):
        assert httpx.get(url + page, cookies=cookies(url)).status_code == 200, page
    assert [user for user, _ in sessions(execute)] == [roles["viewer"]]
    assert pause(url).status_code == 303
    assert {user for user, _ in sessions(execute)} == {roles["viewer"], roles["operator"]}
    assert execute("SELECT paused_at IS NOT NULL FROM pgcron.queue WHERE name = 'default'") == [
        (True,)
    ]


def test_without_a_role_to_write_what_pages_change_is_refused(
    start: Start, database: str, execute: Execute, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = serving(start, monkeypatch, web_dsn=dsn_of(roles["viewer"], database))

    assert pause(url).status_code == 403
    assert execute("SELECT FROM pgcron.queue WHERE paused_at IS NOT NULL") == []


def test_a_process_of_pages_needs_no_other_dsn(
    start: Start, database: str, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    web_dsn = dsn_of(roles["viewer"], database)
    url = serving(start, monkeypatch, web_dsn=web_dsn, dsn="postgresql://nobody@127.0.0.1:1/x")

    page = httpx.get(url, cookies=cookies(url))
    assert page.status_code == 200
    assert quote(roles["viewer"]) not in page.text
