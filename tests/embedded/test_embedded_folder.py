"""The folder of an embedded server: its paths, its permissions, what it refuses."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pgcron_ha.embedded import EmbeddedPostgres, default_data_directory
from pgcron_ha.errors import ConfigError, DatabaseUnavailable
from tests.embedded.processes import rows, shows, wait_until_down, write_row
from tests.product.embedded import DataDirectory
from tests.waiting import wait_for


@pytest.mark.parametrize("name", ["n" * 120, "a folder, with 'words' and ünïcode"])
def test_a_path_that_no_socket_address_can_hold_works(place: Path, name: str) -> None:
    folder = place / name / "data"
    with EmbeddedPostgres(folder) as embedded:
        sockets = embedded.directory.socket_directory
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700

        write_row(embedded.dsn(), "kept")
        with EmbeddedPostgres(folder) as same:
            assert rows(same.dsn()) == ["kept"]

    wait_until_down(embedded)
    wait_for("the socket's folder is gone", lambda: not sockets.exists())


def test_a_socket_folder_that_somebody_else_made_is_refused(place: Path) -> None:
    embedded = EmbeddedPostgres(place / ("n" * 120))
    sockets = embedded.directory.socket_directory
    sockets.symlink_to(place)

    try:
        with pytest.raises(ConfigError, match="belongs to somebody else"):
            embedded.up()
    finally:
        sockets.unlink()


def test_permissions_above_the_folder_stay_as_they_are(place: Path) -> None:
    above = place / "above"
    above.mkdir()
    above.chmod(0o711)
    before = {path: path.stat().st_mode for path in (above, *above.parents)}

    with EmbeddedPostgres(above / "data") as embedded:
        shows(embedded.dsn(), "server_encoding")

    assert {path: path.stat().st_mode for path in (above, *above.parents)} == before


def test_missing_folders_above_are_made(place: Path) -> None:
    with EmbeddedPostgres(place / "one" / "two" / "data") as embedded:
        assert shows(embedded.dsn(), "server_encoding") == "UTF8"


def test_two_names_of_one_folder_are_one_server(embedded: EmbeddedPostgres, place: Path) -> None:
    embedded.up()
    (place / "alias").symlink_to(embedded.directory.path)

    with EmbeddedPostgres(place / "alias") as same:
        assert same.pid == embedded.pid


def test_data_of_another_version_are_refused_with_a_way_out(embedded: EmbeddedPostgres) -> None:
    with embedded:
        pass
    wait_until_down(embedded)
    (embedded.directory.pgdata / "PG_VERSION").write_text("13\n")

    with pytest.raises(ConfigError, match="is of PostgreSQL '13'") as caught:
        embedded.up()

    assert "major version" in str(caught.value.detail)
    assert "PGCRON_HA_PG_BIN" in str(caught.value.hint)


def test_data_without_a_version_are_refused_and_kept(embedded: EmbeddedPostgres) -> None:
    with embedded:
        pass
    wait_until_down(embedded)
    (embedded.directory.pgdata / "PG_VERSION").unlink()

    with pytest.raises(DatabaseUnavailable, match="does not start") as caught:
        embedded.up()

    assert "PG_VERSION" in str(caught.value.detail)
    assert (embedded.directory.pgdata / "base").is_dir()


def test_a_folder_with_files_of_something_else_is_refused_untouched(place: Path) -> None:
    place.joinpath("letter.txt").write_text("mine")

    with pytest.raises(ConfigError, match=str(place)) as caught:
        EmbeddedPostgres(place).up()

    assert "letter.txt" in str(caught.value.detail)
    assert os.listdir(place) == ["letter.txt"]


def test_a_file_in_the_way_is_refused(place: Path) -> None:
    place.joinpath("file").write_text("")

    with pytest.raises(ConfigError, match="can't hold"):
        EmbeddedPostgres(place / "file").up()
    with pytest.raises(ConfigError, match="can't hold"):
        EmbeddedPostgres(place / "file" / "data").up()


def test_a_log_that_grew_large_is_put_aside(embedded: EmbeddedPostgres) -> None:
    with embedded:
        pass
    wait_until_down(embedded)
    with embedded.directory.log.open("ab") as log:
        log.truncate(10 * 1024 * 1024 + 1)

    embedded.up()

    assert embedded.directory.log.stat().st_size < 10_000
    assert embedded.directory.older_log.stat().st_size > 10 * 1024 * 1024
    embedded.up()


def test_the_default_folder_follows_xdg_then_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_data_directory() == Path("/state/pgcron_ha/embedded")

    expected = Path("/home/ann/.local/state/pgcron_ha/embedded")
    if os.geteuid() == 0:
        expected = Path("/var/lib/pgcron_ha/embedded")
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert default_data_directory() == expected
    monkeypatch.delenv("XDG_STATE_HOME")
    assert default_data_directory() == expected


def test_the_default_folder_of_a_user_without_home_variable_is_below_the_systems_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    chosen = default_data_directory()

    assert chosen.is_absolute()
    assert chosen.parts[-2:] == ("pgcron_ha", "embedded")


def test_socket_paths_stay_within_an_address_for_every_length() -> None:
    for length in range(1, 200):
        sockets = DataDirectory("/" + "d" * length).socket_directory
        assert len(f"{sockets}/.s.PGSQL.5432") < 104
