"""Callbacks of called services: an application of its own, with one route.

A caller has a token that was made for one attempt of one run, so it needs neither a page of this
server nor an address of this machine, and the listener may be reachable where the pages may not. It
shows nothing: an answer says what happened to the callback, and to a wrong token only that it is
wrong.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from math import inf
from time import monotonic
from typing import Any, Final, TypeAlias

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pgcron_ha.config.values import Address
from pgcron_ha.credentials import hashed
from pgcron_ha.db.commands import callbacks
from pgcron_ha.db.driver.pool import ClientPool
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.errors import InvalidInput, PgcronError, TooLarge
from pgcron_ha.executors.http.work_reports import MAX_BODY_BYTES, PATH, read_callback
from pgcron_ha.telemetry.log import LOGGER
from pgcron_ha.web.security import PLAIN_HEADERS
from pgcron_ha.web.serving import Bounds, WebServer

Attempt: TypeAlias = tuple[int, int]
Ask: TypeAlias = Callable[[Sequence[callbacks.CallbackKey]], Awaitable[set[int]]]

MOST_PER_SECOND: Final = 50.0
MOST_AT_ONCE: Final = 200.0
"""Callbacks of one attempt: a burst, and then a rate per second. What has no token of an attempt
counts for none, so that nobody can use up the rate of another.
"""

MOST_COUNTED: Final = 10_000
"""Attempts whose callbacks are counted; beyond them, the one without callbacks for longest is
forgotten.
"""

BODY_SECONDS: Final = 10.0
"""For a whole body to come in."""

MOST_WAITING: Final = 64
"""Callbacks whose token is right that are read or kept at a time; of one attempt `MOST_OF_ONE`."""

MOST_OF_ONE: Final = 4

BOUNDS: Final = Bounds(most=2048, head_seconds=10, body_seconds=BODY_SECONDS + 5, answer_seconds=60)
"""Of the connections to the listener."""

_COMPLAINT_SECONDS: Final = 10.0
"""Between two lines of the log that say the same: callers must not fill it."""

MOST_TOKENS: Final = 500
"""That one statement looks for."""

_TOKEN_SECONDS: Final = 10.0
"""For that statement and its connection."""

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_BEARER: Final = re.compile(rb"\r\nauthorization[ \t]*:[ \t]*bearer[ \t]", re.IGNORECASE)
_ROUTE: Final = b"POST " + PATH.partition("{")[0].encode()
_AGAIN: Final = {"retry-after": "1"}
_UNKNOWN: Final = {"www-authenticate": "Bearer", "connection": "close"}


# Status and document of each answer.
_VERDICTS: Final[Mapping[str, tuple[int, Mapping[str, Any]]]] = {
    "taken": (200, {"taken": True}),
    "again": (200, {"taken": True, "message": "it was taken before"}),
    "other": (409, {"message": "another end was reported before"}),
    "gone": (410, {"message": "the attempt is over: nobody waits for this work any more"}),
    "unknown": (401, {"message": "there is no such token"}),
}


def callback_listener(dsn: str, listen: Address, *, schema: str = DEFAULT_SCHEMA) -> WebServer:
    """A server of callbacks that listens already. Raises ConfigError if it can't."""
    app = create_callback_app(dsn, schema=schema)
    return WebServer(app, listen, may_be_reached=True, bounds=BOUNDS, refuse=refuse_early)


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
            await desk.pool.close()

    app = Starlette(
        routes=[Route(PATH, desk.take, methods=["POST"])],
        lifespan=life,
        exception_handlers={404: _no_route, 405: _no_route},
    )
    app.router.redirect_slashes = False
    return app


def refuse_early(data: bytes) -> bytes | None:
    """The answer to a callback whose whole head is here and has no readable token: a flood of
    them must cost little. Everything else is for the application.
    """
    head, end, _ = data.partition(b"\r\n\r\n")
    if not end or not head.startswith(_ROUTE) or _BEARER.search(head):
        return None
    return _refusal()


@cache
def _refusal() -> bytes:
    """The answer to an unknown token, as it is sent."""
    answer = _answer(*_VERDICTS["unknown"], _UNKNOWN)
    headers = b"".join(b"%b: %b\r\n" % header for header in answer.raw_headers)
    return b"HTTP/1.1 401 Unauthorized\r\n%b\r\n%b" % (headers, bytes(answer.body))


class _Desk:
    def __init__(self, dsn: str, schema: str, clock: Callable[[], float]) -> None:
        self.pool = ClientPool(dsn)
        self.tokens = TokenCheck(self._known)
        self._schema = schema
        self._clock = clock
        self._rates = _RateLimit(clock)
        self._under_way: Counter[Attempt] = Counter()
        self._complained_at = -inf

    async def take(self, request: Request) -> Response:
        """One callback; nothing of its body is read before its token is known."""
        key = _key(request)
        try:
            if key is None or not await self.tokens.knows(key):
                return _answer(*_VERDICTS["unknown"], _UNKNOWN)
        except (PgcronError, TimeoutError) as error:
            return self._not_kept(error)
        attempt = key.run, key.fence
        if not self._rates.allows(attempt):
            return _answer(429, {"message": "too many callbacks of this attempt"}, _AGAIN)
        is_full = self._under_way.total() >= MOST_WAITING
        if is_full or self._under_way[attempt] >= MOST_OF_ONE:
            return _answer(503, {"message": "too many callbacks at once"}, _AGAIN)
        self._under_way[attempt] += 1
        try:
            return await self._judge(request, key)
        finally:
            self._under_way -= Counter([attempt])  # leaves out what is zero

    async def _judge(self, request: Request, key: callbacks.CallbackKey) -> Response:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _body(request)
            if body is None:
                message = f"the body has more than {MAX_BODY_BYTES} bytes"
                return _answer(413, {"message": message}, {"connection": "close"})
            said = {**read_callback(body), "schema": self._schema}
            async with self.pool.connection() as connection:
                word = await callbacks.answer_callback(connection, *key, **said)
        except InvalidInput as error:
            return _answer(413 if isinstance(error, TooLarge) else 400, error.as_json())
        except PgcronError as error:
            return self._not_kept(error)
        except TimeoutError:
            return _answer(408, {"message": "the body did not come"}, {"connection": "close"})
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        return _answer(*_VERDICTS[word], _UNKNOWN if word == "unknown" else {})

    async def _known(self, keys: Sequence[callbacks.CallbackKey]) -> set[int]:
        async with self.pool.connection() as connection:
            return await callbacks.known_callbacks(connection, keys, schema=self._schema)

    def _not_kept(self, error: PgcronError | TimeoutError) -> Response:
        # Its words are for the operator, not for the caller.
        now = self._clock()
        if now - self._complained_at > _COMPLAINT_SECONDS:
            self._complained_at = now
            said = error.message if isinstance(error, PgcronError) else "no answer in time"
            logging.getLogger(LOGGER).error("callbacks can't be kept: %s", said)
        return _answer(503, {"message": "it can't be kept now"}, _AGAIN)


class TokenCheck:
    """Checks the token of a callback before anything else of the request is read. `ask` gives the
    positions of the keys that are known. For one event loop.

    Waiting tokens are checked together, by one statement at a time: a flood of wrong ones costs the
    database next to nothing and delays the right ones by no more than a statement.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._waiting: list[tuple[callbacks.CallbackKey, asyncio.Future[bool | Exception]]] = []
        self._asking = asyncio.Lock()

    async def knows(self, key: callbacks.CallbackKey) -> bool:
        """Whether it is the token of that attempt. Raises what `ask` raises, and TimeoutError."""
        answer: asyncio.Future[bool | Exception] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, answer))
        async with self._asking:
            while not answer.done():  # unless a caller before it has asked for both
                await self._ask_for_some()
        found = answer.result()
        if isinstance(found, Exception):
            raise found
        return found

    async def _ask_for_some(self) -> None:
        batch = self._waiting[:MOST_TOKENS]
        found: Sequence[bool | Exception]
        try:
            async with asyncio.timeout(_TOKEN_SECONDS):
                known = await self._ask([key for key, _ in batch])
            found = [position in known for position in range(len(batch))]
        except Exception as error:
            found = [error] * len(batch)
        del self._waiting[: len(batch)]  # when it is cancelled, the next caller asks for them
        for (_, answer), one in zip(batch, found, strict=True):
            answer.set_result(one)


class _RateLimit:
    """A bucket of permits for each attempt."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left: OrderedDict[Attempt, tuple[float, float]] = OrderedDict()

    def allows(self, attempt: Attempt) -> bool:
        now = self._clock()
        left, since = self._left.pop(attempt, (MOST_AT_ONCE, now))
        left = min(MOST_AT_ONCE, left + (now - since) * MOST_PER_SECOND)
        allowed = left >= 1
        self._left[attempt] = (left - 1 if allowed else left, now)
        if len(self._left) > MOST_COUNTED:
            self._left.popitem(last=False)
        return allowed


def _key(request: Request) -> callbacks.CallbackKey | None:
    """The attempt and its token; None when they can't be read."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip()
    run, fence = request.path_params["run"], request.path_params["fence"]
    is_readable = scheme.lower() == "bearer" and _TOKEN.fullmatch(token)
    if not is_readable or not all(map(_NUMBER.fullmatch, (run, fence))):
        return None
    return callbacks.CallbackKey(int(run), int(fence), hashed(token))


async def _body(request: Request) -> bytes | None:
    """The body, or None when it is too large; not read any further then."""
    if int(request.headers.get("content-length", 0)) > MAX_BODY_BYTES:  # h11 has read a number
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
    return JSONResponse(document, status, {**PLAIN_HEADERS, **(headers or {})})


async def _no_route(_: Request, problem: Exception) -> Response:
    if getattr(problem, "status_code", 404) == 405:
        return _answer(405, {"message": "callbacks are sent by POST"}, {"allow": "POST"})
    return _answer(404, {"message": "only callbacks are taken here"})
