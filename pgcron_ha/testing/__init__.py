"""For tests of others: of applications that have handlers and schedules, and of executors.

Needs pytest (``pip install ".[testing]"``, with ``embedded`` if no server is given);
nothing of the product imports it. `conformance` shows whether an executor keeps the contract.

The plug-in of pytest gives tests the fixture ``pgcron`` (`running.Pgcron`): handlers and schedules
run at once, by a real node in the test's process, on a real database. ::

    # pytest.ini: pgcron_app = shop.jobs:app

    async def test_an_invoice_is_sent(pgcron):
        status = await pgcron.run("send_invoice", {"order": 7})
        assert (status.outcome, status.result) == ("succeeded", {"sent": 7})

    async def test_what_the_shop_asks_for_is_done(pgcron):
        await shop.place_order(pgcron.dsn)       # which enqueues in its own transaction
        ended = await pgcron.drain(ahead="1h")   # what is due within an hour, retries too
        assert [run.handler for run in ended] == ["py:send_invoice"]

    async def test_the_report_of_a_day(pgcron):
        fires = await pgcron.fires("report", after=datetime(2026, 3, 28, tzinfo=UTC), count=2)
        assert (await pgcron.fire("report", at=fires[0])).outcome == "succeeded"

A test without an event loop says ``asyncio.run(pgcron.drain())``. The database is that of
``PGCRON_HA_TEST_DSN`` or of the fixture ``pgcron_dsn``, by default an embedded server; the schema
in it is made by the tests, emptied before each and removed in the end, and one that they have not
made is never touched; workers of pytest-xdist have one each. The fixtures ``pgcron_app`` and
``pgcron_schema`` may be overridden, too.
"""

import pytest

pytest.register_assert_rewrite("pgcron_ha.testing.conformance")
