"""One folder, one server, any number of processes; it stops after the last of them."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Callable

import psycopg
import pytest

from pgcron_ha.embedded import EmbeddedPostgres
from pgcron_ha.errors import DatabaseUnavailable
from tests.embedded.processes import (
    Owner,
    rows,
    running,
    shows,
    wait_until_down,
    was_shut_down_cleanly,
    write_row,
)

StartOwner = Callable[..., Owner]


def test_a_fresh_folder_gets_a_server_that_listens_on_its_socket_only(
    embedded: EmbeddedPostgres,
) -> None:
    embedded.up()

    assert shows(embedded.dsn(), "listen_addresses") == ""
    assert shows(embedded.dsn("template1"), "server_encoding") == "UTF8"


def test_the_password_is_private_and_is_asked_for(embedded: EmbeddedPostgres) -> None:
    embedded.up()
    password = embedded.directory.password_file

    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    assert stat.S_IMODE(embedded.directory.path.stat().st_mode) == 0o700
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(embedded.dsn().replace(password.read_text(), "wrong"))


def test_three_processes_that_race_on_a_fresh_folder_share_one_server(
    start_owner: StartOwner,
) -> None:
    owners = [start_owner() for _ in range(3)]

    found = [owner.server for owner in owners]

    assert len({answer["postmaster"] for answer in found}) == 1
    assert len({answer["dsn"] for answer in found}) == 1
    assert shows(found[0]["dsn"], "server_encoding") == "UTF8"


def test_the_server_outlives_its_killed_starter_and_stops_after_the_last_user(
    embedded: EmbeddedPostgres, start_owner: StartOwner
) -> None:
    starter = start_owner()
    started = starter.server["postmaster"]
    other = start_owner()
    assert other.server["postmaster"] == started

    starter.kill9()
    assert embedded.up().pid == started
    write_row(embedded.dsn(), "written after the starter's death")
    embedded.down()
    assert embedded.up().pid == started
    embedded.down()
    other.kill9()

    wait_until_down(embedded)
    assert was_shut_down_cleanly(embedded)


def test_the_server_stops_after_a_user_that_just_ends(
    embedded: EmbeddedPostgres, start_owner: StartOwner
) -> None:
    owner = start_owner()
    assert owner.server["postmaster"]

    owner.end()

    wait_until_down(embedded)
    assert was_shut_down_cleanly(embedded)


def test_rows_survive_a_stop_and_a_start(embedded: EmbeddedPostgres) -> None:
    with embedded:
        write_row(embedded.dsn(), "kept")
        password = embedded.directory.password_file.read_text()
    wait_until_down(embedded)

    with embedded:
        assert rows(embedded.dsn()) == ["kept"]
        assert embedded.directory.password_file.read_text() == password


def test_coming_while_the_server_shuts_down_waits_for_it(embedded: EmbeddedPostgres) -> None:
    embedded.up()
    write_row(embedded.dsn(), "kept")

    for _ in range(5):
        embedded.down()
        embedded.up()
        assert rows(embedded.dsn()) == ["kept"]


def test_children_of_a_user_do_not_keep_the_server(
    embedded: EmbeddedPostgres, start_owner: StartOwner
) -> None:
    owner = start_owner()
    forked = owner.ask("fork")["child"]
    embedded.up()
    program = subprocess.Popen(["sleep", "60"], close_fds=False)

    try:
        embedded.down()
        assert owner.ask("down")["down"]

        wait_until_down(embedded)
        assert program.poll() is None
    finally:
        os.kill(forked, signal.SIGKILL)
        program.kill()
        program.wait()


def test_two_handles_of_one_process_are_two_users(embedded: EmbeddedPostgres) -> None:
    second = EmbeddedPostgres(embedded.directory.path)
    embedded.up()
    second.up()

    embedded.down()

    assert shows(second.dsn(), "server_encoding") == "UTF8"
    second.down()
    wait_until_down(embedded)


def test_going_up_twice_is_one_use_and_going_down_twice_is_harmless(
    embedded: EmbeddedPostgres,
) -> None:
    first = embedded.up().pid
    assert embedded.up().pid == first

    embedded.down()
    embedded.down()

    wait_until_down(embedded)


def test_a_handle_that_is_not_up_has_no_dsn(embedded: EmbeddedPostgres) -> None:
    with pytest.raises(DatabaseUnavailable, match="not up") as caught:
        embedded.dsn()

    assert caught.value.hint == "Call up() first."
    assert running(embedded) is None
