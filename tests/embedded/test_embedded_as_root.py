"""Root's embedded server: in a user namespace, or as another user. Collected for root only."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from pgcron_ha.embedded import EmbeddedPostgres, find_binaries
from pgcron_ha.errors import ConfigError
from tests.embedded.processes import (
    Owner,
    rows,
    shows,
    user_of,
    wait_until_down,
    write_row,
)
from tests.embedded.users import WITHOUT_NAMESPACES, normal_user
from tests.product.embedded import user_namespaces_work

StartOwner = Callable[..., Owner]

NOBODY = pwd.getpwnam("nobody").pw_uid

# Inside a container that forbids them there is nothing more to forbid.
FORBIDDEN = WITHOUT_NAMESPACES if user_namespaces_work() else ()


def test_roots_server_keeps_its_files_roots_where_namespaces_are_allowed(
    embedded: EmbeddedPostgres, folder: Path
) -> None:
    expected = 0 if user_namespaces_work() else NOBODY

    embedded.up()

    assert user_of(embedded.pid) == expected
    assert (folder / "pgdata" / "base").stat().st_uid == expected


def test_a_folder_nobody_else_can_reach_is_no_hindrance_or_is_explained(
    place: Path,
) -> None:
    private = place / "private"
    private.mkdir(mode=0o700)

    if user_namespaces_work():
        with EmbeddedPostgres(private / "data") as embedded:
            assert shows(embedded.dsn(), "server_encoding") == "UTF8"
    else:
        with pytest.raises(ConfigError, match="can't reach"):
            EmbeddedPostgres(private / "data").up()

    assert private.stat().st_mode & 0o777 == 0o700


def test_without_namespaces_roots_server_runs_as_nobody(
    embedded: EmbeddedPostgres, folder: Path, start_owner: StartOwner
) -> None:
    owner = start_owner(prefix=FORBIDDEN)
    found = owner.server

    assert user_of(found["postmaster"]) == NOBODY
    assert (folder / "pgdata" / "base").stat().st_uid == NOBODY
    write_row(found["dsn"], "kept")
    os.kill(found["postmaster"], 9)
    wait_until_down(embedded)

    # Where namespaces are allowed, too: the files are nobody's from now on.
    embedded.up()
    assert user_of(embedded.pid) == NOBODY
    assert rows(embedded.dsn()) == ["kept"]


def test_without_namespaces_programs_that_nobody_can_not_read_are_copied(
    folder: Path, place: Path, start_owner: StartOwner
) -> None:
    private = place / "private"
    private.mkdir(mode=0o700)
    unreadable = find_binaries().copied_to(private / "postgresql").directory

    owner = start_owner(prefix=FORBIDDEN, environment={"PGCRON_HA_PG_BIN": str(unreadable)})

    assert shows(owner.server["dsn"], "server_encoding") == "UTF8"
    assert list((folder / "binaries").rglob("bin/postgres"))


def test_without_namespaces_a_folder_nobody_can_not_reach_is_explained(place: Path) -> None:
    private = place / "private"
    private.mkdir(mode=0o700)
    owner = Owner(private / "data", prefix=FORBIDDEN)

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
