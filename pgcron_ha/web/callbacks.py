"""Where services that were called call back: an application of its own, with one route.

It needs no page of ours and no address of this machine, since who calls has a token that was made
for one attempt of one run; so it may listen where the pages may not. It shows nothing: an answer
says what became of the callback, and to a wrong token no more than that it is wrong.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, Final, NamedTuple

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pgcron_ha.db.callbacks import answer_callback
from pgcron_ha.db.clients import ClientPools
from pgcron_ha.db.statements import DEFAULT_SCHEMA
from pgcron_ha.errors import InvalidInput, PgcronError, TooLarge
from pgcron_ha.executors.callback_answer import MAX_BODY_BYTES, PATH, read_callback
from pgcron_ha.telemetry.log import LOGGER

MOST_PER_SECOND: Final = 50.0
MOST_AT_ONCE: Final = 200.0
"""Callbacks of one client address: so many at once, and then so many a second. What stands before
us (a proxy) is one client.
"""

MOST_CLIENTS: Final = 10_000
"""Addresses whose callbacks are counted; the one that was longest silent is forgotten."""

BODY_SECONDS: Final = 10.0
"""For a whole body to come in."""

MOST_WAITING: Final = 64
"""Callbacks that are looked at, or wait for a connection to the database, at a time."""

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_HEADERS: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_AGAIN: Final = {"retry-after": "1"}


class _Verdict(NamedTuple):
    status: int
    document: Mapping[str, Any]


_VERDICTS: Final[Mapping[str, _Verdict]] = {
    "taken": _Verdict(200, {"taken": True}),
    "again": _Verdict(200, {"taken": True, "message": "it was taken before"}),
    "other": _Verdict(409, {"message": "another end was told before"}),
    "gone": _Verdict(410, {"message": "the attempt is over: nobody waits for this work any more"}),
    "unknown": _Verdict(401, {"message": "there is no such token"}),
}


def create_callback_app(
    dsn: str, *, schema: str = DEFAULT_SCHEMA, clock: Callable[[], float] = monotonic
) -> Starlette:
    """Takes callbacks for the cluster in this database, and answers 404 to everything else."""
    desk = _Desk(dsn, schema, clock)

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await desk.pools.close()

    app = Starlette(routes=[Route(PATH, desk.take, methods=["POST"])], lifespan=life)
    app.router.redirect_slashes = False
    app.add_exception_handler(404, _nothing_here)
    app.add_exception_handler(405, _wrong_method)
    return app


class _Desk:
    def __init__(self, dsn: str, schema: str, clock: Callable[[], float]) -> None:
        self.pools = ClientPools()
        self._dsn = dsn
        self._schema = schema
        self._pace = _Pace(clock)
        self._room = asyncio.Semaphore(MOST_WAITING)

    async def take(self, request: Request) -> Response:
        """One callback."""
        if not self._pace.allows(request.client.host if request.client else ""):
            return _answer(429, {"message": "too many callbacks from this address"}, _AGAIN)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        numbers = [request.path_params["run"], request.path_params["fence"]]
        is_readable = scheme.lower() == "bearer" and _TOKEN.fullmatch(token.strip())
        if not is_readable or not all(map(_NUMBER.fullmatch, numbers)):
            return _answer(*_VERDICTS["unknown"], {"www-authenticate": "Bearer"})
        if self._room.locked():
            return _answer(503, {"message": "too many callbacks at once"}, _AGAIN)
        async with self._room:
            return await self._judge(request, int(numbers[0]), int(numbers[1]), token.strip())

    async def _judge(self, request: Request, run: int, fence: int, token: str) -> Response:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _body(request)
            if body is None:
                message = f"the body has more than {MAX_BODY_BYTES} bytes"
                return _answer(413, {"message": message}, {"connection": "close"})
            said = read_callback(body)
            async with self.pools.connection(self._dsn) as connection:
                word = await answer_callback(
                    connection, run, fence, token, said, schema=self._schema
                )
        except TooLarge as error:
            return _answer(413, error.as_json())
        except InvalidInput as error:
            return _answer(400, error.as_json())
        except PgcronError as error:
            # Its words are for those who run this, not for who calls.
            logging.getLogger(LOGGER).error("a callback can't be kept: %s", error.message)
            return _answer(503, {"message": "it can't be kept now"}, _AGAIN)
        except TimeoutError:
            return _answer(408, {"message": "the body did not come"}, {"connection": "close"})
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        more = {"www-authenticate": "Bearer"} if word == "unknown" else {}
        return _answer(*_VERDICTS[word], more)


class _Pace:
    """A bucket of permits for each client address."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, client: str) -> bool:
        now = self._clock()
        left, since = self._left.pop(client, (MOST_AT_ONCE, now))
        left = min(MOST_AT_ONCE, left + (now - since) * MOST_PER_SECOND)
        allowed = left >= 1
        self._left[client] = (left - 1 if allowed else left, now)
        if len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        return allowed


async def _body(request: Request) -> bytes | None:
    """The body, or None when it is too large; not read any further then."""
    length = request.headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit() or int(length[:20]) > MAX_BODY_BYTES:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)


def _answer(
    status: int, document: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> Response:
    return JSONResponse(document, status, {**_HEADERS, **(headers or {})})


async def _nothing_here(_: Request, __: Exception) -> Response:
    return _answer(404, {"message": "only callbacks are taken here"})


async def _wrong_method(_: Request, __: Exception) -> Response:
    return _answer(405, {"message": "callbacks are sent by POST"}, {"allow": "POST"})
