"""A normal user's embedded server; for root's tests that user is nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pgcron_ha.embedded import EmbeddedPostgres
from tests.embedded.processes import Owner, rows, user_of, wait_until_down, write_row
from tests.embedded.users import normal_user

StartOwner = Callable[..., Owner]


def test_a_normal_user_has_a_server_of_its_own(
    embedded: EmbeddedPostgres, folder: Path, place: Path, start_owner: StartOwner
) -> None:
    user = normal_user(place)
    first = start_owner(**user.how)
    found = first.server
    second = start_owner(**user.how)

    assert found["uid"] != 0
    assert second.server["postmaster"] == found["postmaster"]
    assert user_of(found["postmaster"]) == user.uid
    assert {path.stat().st_uid for path in folder.iterdir()} == {user.uid}
    write_row(found["dsn"], "kept")

    first.kill9()
    assert rows(found["dsn"]) == ["kept"]
    second.kill9()
    wait_until_down(embedded)


def test_a_folder_the_user_can_not_make_is_refused(place: Path) -> None:
    user = normal_user(place)
    owner = Owner(Path("/proc/pgcron/data"), **user.how)

    try:
        assert "can't hold" in owner.server["message"]
        assert "PGCRON_HA_DSN" in owner.server["hint"]
    finally:
        owner.kill9()
