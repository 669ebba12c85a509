"""`kill -9` of anything: the next `up()` has a working server with all committed rows."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pgcron_ha.embedded import EmbeddedPostgres
from pgcron_ha.errors import ConfigError, DatabaseUnavailable
from tests.embedded.processes import (
    Owner,
    parent_of,
    rows,
    running,
    shows,
    wait_until_down,
    was_shut_down_cleanly,
    write_row,
)
from tests.product.embedded import Deadline, FileLock
from tests.waiting import wait_for

StartOwner = Callable[..., Owner]


def test_a_killed_postmaster_is_recovered_by_the_next_up(embedded: EmbeddedPostgres) -> None:
    killed = embedded.up().pid
    write_row(embedded.dsn(), "committed")

    os.kill(killed, signal.SIGKILL)
    wait_until_down(embedded)

    assert embedded.up().pid != killed
    assert rows(embedded.dsn()) == ["committed"]


def test_a_recovered_server_still_stops_after_its_last_user(
    embedded: EmbeddedPostgres, start_owner: StartOwner
) -> None:
    owner = start_owner()
    os.kill(owner.server["postmaster"], signal.SIGKILL)
    wait_until_down(embedded)
    embedded.up()

    embedded.down()
    assert running(embedded) is not None
    owner.kill9()

    wait_until_down(embedded)
    assert was_shut_down_cleanly(embedded)


def test_a_server_whose_keeper_was_killed_is_started_anew_and_stops_after_its_last_user(
    embedded: EmbeddedPostgres, start_owner: StartOwner
) -> None:
    owner = start_owner()
    postmaster = owner.server["postmaster"]
    write_row(owner.server["dsn"], "committed")
    os.kill(parent_of(postmaster), signal.SIGKILL)
    owner.kill9()

    next_owner = start_owner()
    assert next_owner.server["postmaster"] != postmaster
    assert rows(next_owner.server["dsn"]) == ["committed"]
    next_owner.kill9()

    wait_until_down(embedded)
    assert was_shut_down_cleanly(embedded)


def test_a_postmaster_that_dies_with_its_keeper_is_no_live_server(
    embedded: EmbeddedPostgres,
) -> None:
    postmaster = embedded.up().pid
    write_row(embedded.dsn(), "committed")

    # Nobody but the system's first process can reap it now, which may take long or for ever.
    os.kill(parent_of(postmaster), signal.SIGKILL)
    os.kill(postmaster, signal.SIGKILL)
    wait_until_down(embedded)

    assert embedded.up().pid != postmaster
    assert rows(embedded.dsn()) == ["committed"]


def test_a_pid_that_another_program_has_now_is_no_live_server(embedded: EmbeddedPostgres) -> None:
    postmaster = embedded.up().pid
    write_row(embedded.dsn(), "committed")
    os.kill(postmaster, signal.SIGKILL)
    wait_until_down(embedded)
    pid_file = embedded.directory.pgdata / "postmaster.pid"
    _, *others = pid_file.read_text().splitlines()
    pid_file.write_text("\n".join([str(os.getpid()), *others]) + "\n")

    embedded.up()

    assert rows(embedded.dsn()) == ["committed"]


@pytest.mark.parametrize("moment", ["pgdata.new/global", "pgdata"])
def test_a_starter_killed_on_its_way_leaves_nothing_that_hinders(
    embedded: EmbeddedPostgres, folder: Path, start_owner: StartOwner, moment: str
) -> None:
    owner = start_owner()
    wait_for(f"there is {moment}", lambda: (folder / moment).exists())

    owner.kill9()
    embedded.up()

    assert shows(embedded.dsn(), "server_encoding") == "UTF8"
    assert not (folder / "pgdata.new").exists()


def test_the_keeper_stops_the_server_when_it_is_asked_to_end(embedded: EmbeddedPostgres) -> None:
    embedded.up()

    os.kill(parent_of(embedded.pid), signal.SIGTERM)

    wait_until_down(embedded)
    assert was_shut_down_cleanly(embedded)


def test_a_server_that_can_not_start_is_reported_in_its_own_words(
    embedded: EmbeddedPostgres,
) -> None:
    with embedded:
        pass
    wait_until_down(embedded)
    configuration = embedded.directory.pgdata / "postgresql.conf"
    right = configuration.read_text()
    configuration.write_text(right + "max_connections = many\n")

    with pytest.raises(DatabaseUnavailable, match="does not start") as caught:
        embedded.up()
    assert "max_connections" in str(caught.value.detail)
    assert str(embedded.directory.log) in str(caught.value.hint)

    configuration.write_text(right)
    embedded.up()


def test_a_lost_password_file_is_reported(embedded: EmbeddedPostgres) -> None:
    embedded.up()
    embedded.directory.password_file.unlink()

    with pytest.raises(ConfigError, match="password"):
        embedded.dsn()


def test_waiting_for_somebody_who_starts_it_ends(embedded: EmbeddedPostgres, folder: Path) -> None:
    folder.mkdir()
    with FileLock(folder / "start.lock") as busy:
        Deadline(1).acquire(busy, "nobody")

        with pytest.raises(DatabaseUnavailable, match=r"not up within 0\.2 s") as caught:
            embedded.up(timeout=0.2)

    assert "another process that starts the server" in str(caught.value.detail)
    embedded.up()
