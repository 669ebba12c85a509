"""What pages say of a part of all to who sees no more: nothing that only all together tell."""

from __future__ import annotations

from tests.product.model import Grant
from tests.sessions import own_session
from tests.web.tenants import FOREIGN, OWN, add_node, add_tenant, pages_of, said


async def test_a_page_after_a_foreign_letter_is_one_after_none(database: str) -> None:
    await add_node(database)
    for team in (OWN, FOREIGN):
        tenant = await add_tenant(database, team)
    session = await own_session(database)
    await session.execute(
        "UPDATE pgcron.dead_letter SET died_at = now() - interval '2 days' WHERE queue = $1",
        f"{FOREIGN}-mail",
    )
    await session.close()
    async with pages_of(database) as pages:
        pages.come(Grant("viewer", "team", OWN))
        after_foreign = await pages.get(f"/dead?before={tenant.dead}")
        after_none = await pages.get("/dead?before=1000000")
        assert said(after_foreign.text) == said(after_none.text)
        assert f"{OWN} went wrong" in after_none.text


async def test_among_10_000_newer_ones_of_others_pages_do_not_say_that_there_are_none(
    database: str,
) -> None:
    await add_node(database)
    for team in (OWN, FOREIGN):
        await add_tenant(database, team)
    session = await own_session(database)
    async with pages_of(database) as pages:
        pages.come(Grant("viewer", "team", OWN))
        for table, key, newer in (("dead_letter", "run_id", 10_001), ("history", "id", 2_001)):
            await session.execute(
                f"INSERT INTO pgcron.{table} SELECT (jsonb_populate_record(t,"
                f" jsonb_build_object('{key}', 1000000 + n))).*"
                f" FROM pgcron.{table} t, generate_series(1, {newer}) n WHERE t.{key} ="
                f" (SELECT max(f.{key}) FROM pgcron.{table} f WHERE f.queue = '{FOREIGN}-mail')"
            )
        pages.come(Grant("viewer", "team", "newcomers"), person="new")
        places = (("/dead", "me"), ("/", "me"), ("/", "new"))
        shown = [said((await pages.get(path, person)).text) for path, person in places]
        dead, overview, newcomer = [[" ".join(line.split()) for line in lines] for lines in shown]
    await session.close()
    none = "none among the newest {} of all"
    assert none.format("10 000") in dead
    assert "No dead letters" not in dead
    assert none.format("500 dead letters") in newcomer
    for newest in ("10 000", "2 000 runs"):
        assert none.format(newest) in overview
