"""``/livez``, ``/readyz``, ``/startupz``, ``/statusz``, ``/metrics``: what machines ask.

Not logged, never cached.

Livez needs no database, so that an outage of it restarts nothing. Readyz fails first when a node
drains, so that a load balancer stops using it while it ends what it runs. The three open ones
answer one word: no versions, no names.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from time import monotonic
from typing import Final

from starlette.responses import JSONResponse, PlainTextResponse, Response

from pgcron_ha.db.queries import health
from pgcron_ha.db.queries.audit import unsent
from pgcron_ha.db.queries.pages import overview as ask
from pgcron_ha.errors import PgcronError
from pgcron_ha.model.formats import rfc
from pgcron_ha.web.metrics import CONTENT_TYPE
from pgcron_ha.web.page_request import PageRequest, together

# An event loop that was not woken for this time is wedged.
WEDGED_SECONDS: Final = 30.0
# What is read of the cluster, how long it is kept, and how long a scrape waits for it.
_CLUSTER: Final = together(health.tables, ask.waiting, unsent)
CLUSTER_LIFE_SECONDS: Final = 60.0
_CLUSTER_WAIT_SECONDS: Final = 0.5
# Labels of the metric; the schema has some forty tables.
MOST_TABLES: Final = 100


async def show_livez(page_request: PageRequest) -> Response:
    """``ok`` as long as the event loop turns; 503 when it was held for long."""
    return _answer(monotonic() - page_request.services.pulsed_at < WEDGED_SECONDS)


async def show_readyz(page_request: PageRequest) -> Response:
    """``ok`` when the database answers and has the schema that is needed, and the node of this
    process, if it has one, holds its lease and does not drain; else 503.
    """
    look = page_request.services.look
    works = look is None or look().not_ready_because is None
    return _answer(works and await _is_readable(page_request))


async def show_startupz(page_request: PageRequest) -> Response:
    """``ok`` once the database was read with the schema that is needed, and the node of this
    process, if it has one, has joined; an outage after that changes nothing.
    """
    reader, look = page_request.services.reader, page_request.services.look
    has_joined = look is None or look().incarnation is not None
    was_read = reader.last_success is not None
    return _answer(has_joined and (was_read or await _is_readable(page_request)))


async def show_statusz(page_request: PageRequest) -> Response:
    """What this process knows of itself, from memory: works while the database is away."""
    services = page_request.services
    reader, node = services.reader, services.look and services.look()
    pool, last = reader.pool.use(), reader.last_success
    return JSONResponse(
        {
            "role": "web" if node is None else "node",
            "version": services.version,
            "schema": page_request.schema,
            "last_successful_read": None if last is None else rfc(last),
            "database_problem": None if reader.problem is None else reader.problem.as_json(),
            "pool": {"open": pool.open, "idle": pool.idle},
            "event_loop_pulse_age_seconds": round(monotonic() - services.pulsed_at, 3),
            "node": node and {**asdict(node), "not_ready_because": node.not_ready_because},
        }
    )


async def show_metrics(page_request: PageRequest) -> Response:
    """Prometheus's text format: what this process did and saw. A process without a node reports
    about the cluster, too; if each node did, their sum would be wrong.
    """
    if page_request.services.look is None:
        await _note_cluster(page_request)
    text = page_request.services.metrics.text(page_request.services.reader.pool.use())
    return Response(text, media_type=CONTENT_TYPE, headers={"content-type": CONTENT_TYPE})


async def _note_cluster(page_request: PageRequest) -> None:
    """The largest tables, and what waits; nothing while the database can't say."""
    sizes: dict[str, int] = {}
    waiting: Counter[str] = Counter()
    try:
        async with asyncio.timeout(_CLUSTER_WAIT_SECONDS):
            found = await page_request.read("metrics", _CLUSTER, life=CLUSTER_LIFE_SECONDS)
        if found.problem is None:
            tables, groups, lag = found.value
            sizes = {table["table"]: table["total"] for table in tables[:MOST_TABLES]}
            for row in groups:
                waiting[row["waits_for"]] += row["runs"]
            page_request.services.metrics.unsent.set(lag)
    except TimeoutError:
        return  # those that are known stay, and the read goes on for the next scrape
    except PgcronError:
        pass
    page_request.services.metrics.cluster_is(sizes, waiting)


def _answer(is_well: bool) -> Response:
    if is_well:
        return PlainTextResponse("ok\n")
    return PlainTextResponse("fail\n", 503, {"retry-after": "5"})


async def _is_readable(page_request: PageRequest) -> bool:
    with suppress(PgcronError):
        await page_request.services.reader.check()
        return True
    return False
