"""How a request ends that nobody wants any more."""

from __future__ import annotations

import asyncio

import pytest

from pgcron_ha.executors.contract.base import SUCCEEDED, Interrupted, StopReason
from pgcron_ha.operating_system import boottime
from tests.executors.http.calls import destination, executor
from tests.executors.http.service import Answer, Route, Service, endless, hang
from tests.executors.running import context
from tests.waiting import until

ROUTES: dict[str, Route] = {
    "/hang": hang,
    "/drip": endless(b"x", "Content-Type: text/plain\r\n"),
    "/": Answer(204),
}


@pytest.mark.parametrize("how", ["stop", "kill", "lease"])
async def test_a_request_that_is_stopped_closes_its_connection(how: str) -> None:
    with Service(ROUTES) as service:
        async with executor(destination(service.url + "/hang")) as (running, record):
            run = context(1, "http:d")
            running.start([run])
            await until("it hangs", lambda: service.at_work == {"1"})
            if how == "stop":
                running.stop(run, StopReason.CANCELLED)
            elif how == "kill":
                assert running.kill(run)
            else:
                running.renew_lease(boottime() + 0.1)
            outcome = await asyncio.to_thread(record.outcome, run)
            await until("the service sees it", lambda: service.at_work == set())
    expected = StopReason.LEASE_LOST if how == "lease" else StopReason.CANCELLED
    assert outcome == Interrupted(expected, f"stopped: {expected}")


async def test_the_time_limit_of_the_destination_ends_a_request() -> None:
    with Service(ROUTES) as service:
        hanging = destination(service.url + "/hang", timeout="200ms")
        async with executor(hanging) as (running, record):
            run = context(1, "http:d")
            running.start([run])
            outcome = await asyncio.to_thread(record.outcome, run)
    assert outcome == Interrupted(StopReason.TIMED_OUT, "stopped: timed_out")


async def test_what_waits_for_a_connection_is_stopped_without_a_request() -> None:
    with Service(ROUTES) as service:
        offered = destination(service.url + "/hang", connections=1)
        async with executor(offered) as (running, record):
            runs = [context(number, "http:d") for number in (1, 2)]
            running.start(runs)
            await until("the first hangs", lambda: service.at_work == {"1"})
            running.stop(runs[1], StopReason.CANCELLED)
            assert isinstance(await asyncio.to_thread(record.outcome, runs[1]), Interrupted)
            running.stop(runs[0], StopReason.CANCELLED)
            await asyncio.to_thread(record.outcome, runs[0])
    assert len(service.requests) == 1


async def test_a_service_that_hangs_delays_no_other() -> None:
    with Service(ROUTES) as service:
        slow = destination(service.url + "/hang", "slow")
        quick = destination(service.url + "/", "quick")
        async with executor(slow, quick) as (running, record):
            running.start([context(number, "http:slow") for number in range(10)])
            run = context(99, "http:quick")
            running.start([run])
            assert await asyncio.to_thread(record.outcome, run, 5) is SUCCEEDED
