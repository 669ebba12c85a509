"""Root's embedded server runs as another user. Collected for root only."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

from pgcron_ha.embedded import EmbeddedPostgres, find_binaries
from tests.embedded.processes import Owner, rows, shows, user_of, wait_until_down, write_row
from tests.embedded.users import normal_user

StartOwner = Callable[..., Owner]

NOBODY = pwd.getpwnam("nobody").pw_uid


def test_roots_server_runs_as_nobody(
    embedded: EmbeddedPostgres, folder: Path, start_owner: StartOwner
) -> None:
    found = start_owner().server

    assert user_of(found["postmaster"]) == NOBODY
    assert (folder / "pgdata" / "base").stat().st_uid == NOBODY
    write_row(found["dsn"], "kept")
    os.kill(found["postmaster"], 9)
    wait_until_down(embedded)

    embedded.up()
    assert user_of(embedded.pid) == NOBODY
    assert rows(embedded.dsn()) == ["kept"]


def test_programs_that_nobody_can_not_read_are_copied(
    folder: Path, place: Path, start_owner: StartOwner
) -> None:
    private = place / "private"
    private.mkdir(mode=0o700)
    unreadable = find_binaries().copied_to(private / "postgresql").directory

    owner = start_owner(environment={"PGCRON_HA_PG_BIN": str(unreadable)})

    assert shows(owner.server["dsn"], "server_encoding") == "UTF8"
    assert list((folder / "binaries").rglob("bin/postgres"))


def test_a_folder_nobody_can_not_reach_is_explained(place: Path) -> None:
    private = place / "private"
    private.mkdir(mode=0o700)
    owner = Owner(private / "data")

    try:
        assert "can't reach" in owner.server["message"]
        assert "/var/lib" in owner.server["hint"]
        assert private.stat().st_mode & 0o777 == 0o700
    finally:
        owner.kill9()


def test_root_and_the_owner_of_a_folder_share_its_server(
    embedded: EmbeddedPostgres, folder: Path, place: Path, start_owner: StartOwner
) -> None:
    user = normal_user(place)
    folder.mkdir(mode=0o700)
    os.chown(folder, user.uid, -1)

    embedded.up()
    write_row(embedded.dsn(), "by root")
    found = start_owner(**user.how).server

    assert found["postmaster"] == embedded.pid
    assert user_of(embedded.pid) == user.uid
    assert rows(found["dsn"]) == ["by root"]
