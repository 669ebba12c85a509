"""Nodes and a handler that fails until it is told to work: real nodes, on one database."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pgcron_ha import App, Breaker, Secret
from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.contract.base import Context
from tests.db.control import Connect, Connection, enqueue
from tests.engine.test_node import living
from tests.product.config import Settings, load_settings, read_sources
from tests.product.engine import Node
from tests.product.telemetry import CircuitClosed, CircuitOpened, Event
from tests.waiting import until

HANDLER = "py:fragile"


class Fragile:
    """An App whose handler fails until `works` is set; the spare one always works."""

    def __init__(self, **settings: Any) -> None:
        self.app = App()
        self.go_on = threading.Event()  # what `living` sets at its end
        self.works = False
        self.calls: list[int] = []
        self.together = self.most_together = 0
        self.spared: Counter[str] = Counter()
        self.app.handler("fragile", breaker=Breaker(**settings))(self.fragile)
        self.app.handler("spare")(self.spare)

    async def fragile(self, ctx: Context) -> None:
        self.calls.append(ctx.run_id)
        if not self.works:
            raise RuntimeError("the service is away")

    async def spare(self, ctx: Context) -> None:
        self.spared[ctx.handler] += 1


@pytest.fixture
def settings(database: str, tmp_path: Path) -> Callable[..., Settings]:
    def make(name: str = "n1", **flags: Any) -> Settings:
        given: dict[str, Any] = {f"node.{key}": value for key, value in flags.items()}
        given |= {"dsn": database, "node.name": name, "node.state_directory": str(tmp_path / name)}
        return load_settings(read_sources(environment={}, flags=given))

    return make


@asynccontextmanager
async def nodes(
    settings: Callable[..., Settings], fragile: Fragile, count: int = 3
) -> AsyncIterator[list[Node]]:
    """So many nodes with the same handlers."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(living(settings(f"n{number}"), fragile))  # type: ignore[arg-type]
            for number in range(count)
        ]


async def state(connection: Connection) -> str | None:
    found: str | None = await connection.fetchval(
        "SELECT state FROM pgcron.breaker WHERE name = $1", HANDLER
    )
    return found


async def reaches(connection: Connection, wanted: str) -> None:
    async def is_so() -> bool:
        return await state(connection) == wanted

    await until(f"the breaker is {wanted}", is_so)


async def open_it(connection: Connection, events: list[Event], count: int) -> None:
    """Three runs fail once and are not retried, and `count` nodes hear what follows from it."""
    await reaches(connection, "closed")  # declared by the first node
    await enqueue(connection, 3, handler=HANDLER, max_attempts=1)

    def have_heard() -> bool:
        return sum(isinstance(event, CircuitOpened) for event in events) == count

    await until("all nodes have heard", have_heard)


async def ended(connection: Connection, outcome: str = "succeeded") -> int:
    count: int = await connection.fetchval(
        "SELECT count(*) FROM pgcron.history WHERE outcome = $1", outcome
    )
    return count


async def test_while_it_is_open_a_hundred_runs_wait_and_after_one_probe_all_go(
    settings: Callable[..., Settings], connection: Connection, events: list[Event]
) -> None:
    fragile = Fragile(failures=3, open_for="8s")
    async with nodes(settings, fragile):
        await open_it(connection, events, 3)
        await enqueue(connection, 100, handler=HANDLER)

        async def are_held() -> bool:
            held: int = await connection.fetchval(
                "SELECT count(*) FROM pgcron.run WHERE gate = 'breaker' AND attempt = 0"
            )
            return held == 100

        await until("all of them are set aside", are_held)
        assert len(fragile.calls) == 3
        fragile.works = True
        await reaches(connection, "closed")

        async def are_done() -> bool:
            return await ended(connection) == 100

        await until("all of them have run", are_done)

    assert len(fragile.calls) == 103
    attempts = await connection.fetch("SELECT DISTINCT attempt FROM pgcron.history")
    assert [row["attempt"] for row in attempts] == [1]
    assert any(isinstance(event, CircuitOpened) for event in events)
    assert any(isinstance(event, CircuitClosed) for event in events)


async def test_who_locks_the_breaker_that_a_node_declares_delays_no_other(
    settings: Callable[..., Settings], connection: Connection, another: Connect, events: list[Event]
) -> None:
    await connection.execute("INSERT INTO pgcron.breaker (name) VALUES ($1), ('py:spare')", HANDLER)
    await connection.execute(
        "UPDATE pgcron.breaker SET state = 'open', opened_at = now(), openings = 1,"
        " reason = 'it is away', open_until = now() + interval '1 hour' WHERE name = 'py:spare'"
    )
    locker = await another()
    async with locker.transaction():
        await locker.execute("SELECT FROM pgcron.breaker WHERE name = $1 FOR UPDATE", HANDLER)
        async with nodes(settings, Fragile(failures=7), 1):

            def has_heard() -> bool:
                return any(isinstance(each, CircuitOpened) for each in events)

            await until("the node follows the other breaker", has_heard)
            await locker.execute("COMMIT")

            async def is_declared() -> bool:
                failures = "SELECT failures FROM pgcron.breaker WHERE name = $1"
                return bool(await connection.fetchval(failures, HANDLER) == 7)

            await until("the breaker is as the node declares it", is_declared)
            await locker.execute("BEGIN")


async def test_a_probe_that_fails_is_the_only_run_that_was_tried(
    settings: Callable[..., Settings], connection: Connection, events: list[Event]
) -> None:
    fragile = Fragile(failures=3, open_for="2s")
    async with nodes(settings, fragile):
        await open_it(connection, events, 3)
        await enqueue(connection, 20, handler=HANDLER)

        async def opened_again() -> bool:
            openings: int = await connection.fetchval("SELECT openings FROM pgcron.breaker")
            return openings == 2

        await until("its probe has failed", opened_again)
        assert len(fragile.calls) == 4
        assert await connection.fetchval("SELECT sum(attempt) FROM pgcron.run") == 1
        fragile.works = True


@pytest.mark.parametrize("secretive", ["fragile", "spare", "sharing"])
async def test_a_fallback_handler_is_refused_where_args_are_secret(
    settings: Callable[..., Settings], secretive: str
) -> None:
    async def with_secrets(card: Secret[str]) -> None: ...

    async def without(card: str) -> None: ...

    fallback = Breaker(fallback={"handler": "py:spare"})
    breakers: dict[str, Any] = {"fragile": fallback, "sharing": "py:fragile"}
    app = App()
    for name in ("fragile", "spare", "sharing"):
        function = with_secrets if name == secretive else without
        app.handler(name, breaker=breakers.get(name))(function)

    with pytest.raises(ConfigError, match=f"'py:{secretive}' takes secret args"):
        await Node(settings(), [app], "test").run()


async def test_a_fallback_handler_takes_what_comes_while_it_is_open(
    settings: Callable[..., Settings], connection: Connection, events: list[Event]
) -> None:
    fragile = Fragile(failures=3, open_for="60s", fallback={"handler": "py:spare"})
    async with nodes(settings, fragile, count=2):
        await open_it(connection, events, 2)
        await enqueue(connection, 20, handler=HANDLER)

        async def are_done() -> bool:
            return await ended(connection) == 20

        await until("the other handler has executed them", are_done)

    assert fragile.spared == {"py:spare": 20}
    reported = await connection.fetchval("SELECT count(*) FROM pgcron.fallback_run")
    assert (reported, len(fragile.calls)) == (20, 3)
