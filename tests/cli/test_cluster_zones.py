"""Commands compute with the time zones of the nodes, whatever is installed beside them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pgcron_ha.model.zone_data import package_version
from tests.cli.conftest import Cli, Execute
from tests.engine.zone_packages import ZONE, tzif

NOON = ("0 12 * * *", "--tz", ZONE, "--from", "2090-01-01", "--count", "1")


@pytest.fixture
def brought(execute: Execute) -> None:
    """The nodes have a newer tzdata: the zone, and a new one, are five hours ahead of UTC."""
    execute(
        "INSERT INTO pgcron.timezone (name, rules) SELECT unnest(%s::text[]), %s"
        " ON CONFLICT (name) DO UPDATE SET rules = EXCLUDED.rules",
        [ZONE, "Mars/Phobos"],
        tzif([(datetime(1970, 1, 1, tzinfo=UTC), 5)]),
    )
    execute("UPDATE pgcron.cluster SET tzdata = '2099b'")


@pytest.mark.usefixtures("brought")
def test_schedules_are_shown_and_put_with_the_zones_of_the_nodes(cli: Cli) -> None:
    new = cli("schedules", "put", "new", "0 12 * * *", "py:x", "--timezone", "Mars/Phobos")
    put = cli("schedules", "put", "noon", "0 12 * * *", "py:x", "--timezone", ZONE)
    (shown,) = cli("schedules", "show", "noon", "--json").rows
    skipped = cli("schedules", "skip", "noon", "2090-01-01T12:00")

    assert "T07:00:00Z" in new.out
    assert "T07:00:00Z" in put.out
    assert [fire["fire_at"][10:] for fire in shown["preview"]] == ["T07:00:00Z"] * 5
    assert "at 2090-01-01T07:00:00Z is skipped" in skipped.out


@pytest.mark.usefixtures("brought")
def test_next_asks_the_database_that_is_named_and_says_so(cli: Cli) -> None:
    answer = cli("next", *NOON, "--json")

    assert answer.rows[0]["fire_at"] == "2090-01-01T07:00:00Z"
    assert f"(tzdata 2099b); installed here is {package_version()}" in answer.err
    assert "tzdata" not in cli("next", "0 12 * * *").err


def test_next_goes_on_without_the_database_and_says_so(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = cli("next", *NOON)
    monkeypatch.setenv("PGCRON_HA_DSN", "postgresql://nobody@127.0.0.1:1/none")
    away = cli("next", *NOON)
    without_zone = cli("next", "0 12 * * *")

    assert (same.code, same.err) == (0, "")
    assert (away.code, away.out) == (0, same.out)
    assert away.err.startswith("note: these are the time zones installed here")
    assert without_zone.err == ""
