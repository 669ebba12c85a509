"""Pages compute with the time zones of the nodes, whatever is installed beside the pages."""

from __future__ import annotations

from datetime import UTC, datetime

from pgcron_ha.model.zone_data import package_version, version_in_force
from tests.engine.zone_packages import ZONE, tzif
from tests.sessions import own_session
from tests.web.conftest import Site

VERSION = "2099b"


async def bring(dsn: str, hours: int) -> None:
    """The nodes have a newer tzdata, in which the zone is so many hours ahead of UTC."""
    connection = await own_session(dsn)
    await connection.execute(
        "INSERT INTO pgcron.timezone (name, rules) VALUES ($1, $2)"
        " ON CONFLICT (name) DO UPDATE SET rules = EXCLUDED.rules",
        ZONE,
        tzif([(datetime(1970, 1, 1, tzinfo=UTC), hours)]),
    )
    await connection.execute("UPDATE pgcron.cluster SET tzdata = $1", VERSION)
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, timezone, handler)"
        " VALUES ('noon', '0 12 * * *', $1, 'py:x')",
        ZONE,
    )
    await connection.close()


async def test_a_schedules_fires_are_those_that_its_nodes_make(site: Site, database: str) -> None:
    assert (await site.get("/schedules")).status_code == 200
    assert version_in_force() == package_version()
    await bring(database, 5)

    page = await site.get("/schedules/noon")

    assert version_in_force() == VERSION
    assert "12:00:00 (+5)" in page.text
    assert "07:00:00 UTC" in page.text


async def test_a_verb_reads_local_times_as_the_nodes_do(site: Site, database: str) -> None:
    await bring(database, 5)

    done = await site.post("/schedules/noon/occurrences/skip", instant="2090-01-01T12:00")

    assert done.status_code == 303
    connection = await own_session(database)
    fire = await connection.fetchval("SELECT fire_at FROM pgcron.occurrence_override")
    await connection.close()
    assert fire == datetime(2090, 1, 1, 7, tzinfo=UTC)
