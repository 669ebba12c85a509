"""One request as a page sees it: its values, how to read, how to answer."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from pgcron_ha.db.commands import functions
from pgcron_ha.db.commands.login import reaches
from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.scopes import SCOPES, enter, within
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries.overview import database_time
from pgcron_ha.errors import Refused
from pgcron_ha.model.formats import plain, state_words
from pgcron_ha.model.permissions import NOBODY, OF_THE_CLUSTER, OWN_ACCOUNT, ROLE_OF, Person
from pgcron_ha.spec.zones import load_zone, zone_names
from pgcron_ha.web.address import fields, filled, near_names, singular
from pgcron_ha.web.reading import LIFE_SECONDS, Snapshot
from pgcron_ha.web.security import MOST_BODY_BYTES, own_path
from pgcron_ha.web.services import Services
from pgcron_ha.web.templating import NOTICES, section_of, templates

T = TypeVar("T")
# A query or a command: a connection comes first, the schema is given by its name.
Ask: TypeAlias = Callable[..., Awaitable[T]]

INTERFACE: Final = "ui"
# Sent by the script, which needs the page without its frame.
LIVE_HEADER: Final = "x-pgcron-live"
ZONE_COOKIE: Final = "pgcron_zone"
# How often an open page is looked at again; reads are shared, so it costs a page's text.
REFRESH_SECONDS: Final = 3
OPERATION_FIELD: Final = "operation"
# In every address: the viewer's zone, and what was just done.
FRAME_FIELDS: Final = ("tz", "done")
_MOST_OF_ADDRESS: Final = 1_000
# Characters of what names an operation to the database.
_MOST_KEY: Final = 500


class PageRequest:
    """One request. Pages use nothing else of the web framework."""

    def __init__(self, request: Request, services: Services) -> None:
        self.request = request
        self.services = services
        self.person: Person = NOBODY
        """Who sent it; nobody where the route is open."""
        self.permission = ""
        """What the route needs."""
        self.object: tuple[str, str] | None = None
        """What the route is about, if it is one thing: its kind and name in addresses."""
        self.roles: Mapping[str, bool] | None = None
        """Whether the person has each role for this object; None: it does not depend on it."""
        self.refused: Refused | None = None
        """What the page shows in a form that was refused."""
        self._operation: str | None = None

    @property
    def schema(self) -> str:
        """The schema of the tables."""
        return self.services.reader.schema

    @property
    def segments(self) -> Mapping[str, Any]:
        """What the path names, in its order: names decoded, ``{id}`` a number."""
        return self.request.path_params

    def query(self, *known: str) -> dict[str, str]:
        """The values of the address that are given and not empty.

        Raises InvalidInput for a name that this page does not know, one given twice, or a value
        that is too long. ``tz`` and ``done`` are the frame's and always allowed.
        """
        found = fields(
            self.request.url.query, (*known, *FRAME_FIELDS), "the address", _MOST_OF_ADDRESS
        )
        return {name: text for name, text in found.items() if text and name not in FRAME_FIELDS}

    async def form(self, *known: str, keep_empty: bool = False) -> dict[str, str]:
        """The values of a posted form that are given and, unless `keep_empty`, not empty;
        InvalidInput as `query`.
        """
        text = (await self.request.body()).decode(errors="replace")
        found = fields(text, (*known, OPERATION_FIELD), "the form", MOST_BODY_BYTES)
        self._operation = found.pop(OPERATION_FIELD, None)
        return {name: text for name, text in found.items() if text or keep_empty}

    async def read(
        self, view: str, ask: Ask[T], /, *given: Any, life: float | None = None, **more: Any
    ) -> Snapshot[T]:
        """What `ask(connection, *given, schema=…)` gives, shared with other viewers of this view
        who ask for the same: see `Reader.snapshot`.

        Open pages read again every `REFRESH_SECONDS`, each at its own moment; what one of them has
        read is new enough for the others until then, so all cost what one costs.
        """
        if life is None:
            life = REFRESH_SECONDS if self.is_live else LIFE_SECONDS
        values = (tuple(each.items()) if isinstance(each, dict) else each for each in given)
        return await self.services.reader.snapshot(
            (view, *values, *more.items(), SCOPES.get()),
            lambda connection: Session(connection, self.schema).call(ask, *given, **more),
            life=life,
        )

    async def gather(
        self, view: str, read: Ask[T], /, *given: Any, life: float | None = None
    ) -> Snapshot[T]:
        """As `read`, what `read(session, *given)` asks."""

        async def ask(connection: Any, *given: Any, schema: str) -> T:
            return await read(Session(connection, schema), *given)

        return await self.read(view, ask, *given, life=life)

    async def now(self) -> datetime:
        """What the database's clock shows, the only one that several hosts share."""
        return (await self.read("clock", database_time)).now

    async def do(self, command: Ask[T], *given: Any, **more: Any) -> T:
        """`act` with one command: ``command(connection, *given, actor=…, schema=…)``."""
        return await self.act(lambda session: session.act(command, *given, **more))

    async def act(self, verb: Callable[[Session], Awaitable[T]]) -> T:
        """What `verb(session)` does, in a transaction of its own. Later reads see it."""
        async with self.session() as session:
            with answers(), within(self.person.scopes(self.permission)):
                async with session.connection.transaction():
                    await enter(session.connection)
                    about = None if SCOPES.get() is None else self.object
                    if about is not None and not await session.call(reaches, *about):
                        raise self.refusal()
                    done = await verb(session)
            self.services.reader.expire()
            return done

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """What is written with it is said to be of this person."""
        async with self.services.writers.connection() as connection:
            yield Session(connection, self.schema, self.person.actor, INTERFACE, self.address)

    @property
    def address(self) -> str | None:
        """Where the request comes from, before any proxies that are believed."""
        return self.services.access.address(self.request)

    def may(self, permission: str) -> bool:
        """Whether the person may do that here: to the object of this page, else to any."""
        here = self.roles is None or permission in OWN_ACCOUNT or self.roles[ROLE_OF[permission]]
        return here and self.person.may(permission)

    def may_open(self, route: str) -> bool:
        """As `may`, what the route of this name needs. An open page does not know its viewer."""
        _, needed = self.services.routes[route]
        return self.person is NOBODY or needed == "open" or self.may(needed)

    def refusal(self) -> Refused:
        """That the person may not do what the route does, here or anywhere."""
        if not self.person.grants:
            return Refused(
                "you have no role yet",
                f"This page needs the permission {self.permission}.",
                "Ask an administrator for a role: a viewer reads, an operator acts.",
            )
        role = ROLE_OF[self.permission]
        here = "" if self.object is None else f" for {singular(self.object[0])} {self.object[1]}"
        held = ", ".join(one.words for one in self.person.grants_as(role))
        more = " Only a role for everything gives it." if self.permission in OF_THE_CLUSTER else ""
        return Refused(
            f"you may not do that: it needs the permission {self.permission}{here}",
            f"{f'Your roles give it for {held}' if held else 'None of your roles gives it'}.{more}",
            f"Ask an administrator for the role {role} there.",
        )

    async def make_run(self, make: Callable[[Session], Awaitable[int]], done: str) -> Response:
        """Makes a run by `make(session)`, in a transaction of its own, and shows it with the
        notice `done`; if it gives no new run but the one of the address, that is due now.

        A form that is sent twice, by an impatient hand or a browser that repeats it, is one
        operation: the database gives the run that the first one made. A program that sends no
        operation token always makes a new run.
        """
        key = f"{INTERFACE}:{self._operation}:{self.request.scope['path']}"[:_MOST_KEY]
        if self._operation is None:
            run, is_new = await self.act(make), True
        else:
            run, is_new = await self.act(
                lambda session: session.call(functions.once, key, lambda: make(session))
            )
        word = "retried" if run == self.segments.get("id") else done
        return self.redirect("run", word if is_new else "repeated", id=run)

    @cached_property
    def operation(self) -> str:
        """The operation token of this page's forms, which its script sends to keep it."""
        return self.request.headers.get(LIVE_HEADER) or secrets.token_hex(16)

    def link(self, route: str, query: Mapping[str, Any] | None = None, /, **segments: Any) -> str:
        """The path of a route by its name, with these values in the address; None is left out.
        Empty if the person may not open it: the templates draw no link then, and no button.
        """
        if not self.may_open(route):
            return ""
        pattern, _ = self.services.routes[route]
        path: str = self.request.scope.get("root_path", "") + filled(pattern, segments)
        zone = self.request.query_params["tz"] if self._chosen_zone else None
        asked = {"tz": zone, **(query or {})}
        given = urlencode({key: value for key, value in asked.items() if value is not None})
        return f"{path}?{given}" if given else path

    def near(self, route: str, name: str, known: Sequence[str]) -> list[tuple[str, str]]:
        """Of the known names those that may have been meant, with the addresses of their pages."""
        return [(near, self.link(route, name=near)) for near in near_names(name[:100], known)]

    def chips(
        self, route: str, filters: Mapping[str, str], *, but: str = ""
    ) -> list[tuple[str, str]]:
        """Each filter in words, with the address without it; but one that is chosen otherwise."""
        words = {**filters, "state": state_words(filters.get("state", ""))}
        return [
            (f"{name}: {plain(words[name])}", self.link(route, {**filters, name: None}))
            for name in filters
            if name != but
        ]

    def turns(
        self, route: str, filters: Mapping[str, Any], where: str, begin: Any, /, **segments: Any
    ) -> dict[str, Any]:
        """Addresses of a list's pages: ``next_href`` of the one that begins at `begin` (None: there
        is none), as the field `where` says, and ``first_href``, unless this is the first.
        """
        is_first = where not in self.request.query_params
        later = {**filters, where: begin}
        return {
            "first_href": None if is_first else self.link(route, filters, **segments),
            "next_href": None if begin is None else self.link(route, later, **segments),
        }

    def listed(
        self, route: str, known: Sequence[str], given: Mapping[str, str], where: str, begin: Any
    ) -> dict[str, Any]:
        """What a list shows of its `known` filters: the text of each in ``filters``, `chips` of
        those that are given, and its `turns`.
        """
        filters = {name: given[name] for name in known if name in given}
        return {
            "filters": {name: given.get(name, "") for name in known},
            "chips": self.chips(route, filters),
            **self.turns(route, filters, where, begin),
        }

    def choices(
        self,
        route: str,
        name: str,
        words: Sequence[str | None],
        filters: Mapping[str, Any],
        /,
        **segments: str,
    ) -> list[tuple[str, str, bool]]:
        """The words of one filter (None: all), for each the list that it leads to, in which other
        `filters` stay as they are, and whether it is the one that is chosen.
        """
        hrefs = (self.link(route, {**filters, name: word}, **segments) for word in words)
        return [
            (state_words(word or "all"), href, word == filters.get(name))
            for word, href in zip(words, hrefs, strict=True)
        ]

    def page(
        self,
        template: str,
        snapshot: Snapshot[Any] | None,
        *,
        title: str,
        status: int = 200,
        is_still: bool = False,
        **view: Any,
    ) -> Response:
        """The page of a template, which reads `view` (what the page shows), `viewer`, `frame`.

        `snapshot` is what `view` was made of: its clock is the page's, and a problem of it becomes
        the banner of a page from memory. `is_still`: the script doesn't look again.
        """
        problem = None if snapshot is None else snapshot.problem
        if problem is not None and status == 200:
            status = 503
        frame = SimpleNamespace(
            template=template,
            title=title,
            section=section_of(own_path(self.request.scope)),
            status=status,
            problem=problem,
            read_at=None if snapshot is None else snapshot.read_at,
            notice=NOTICES.get(self.request.query_params.get("done", "")),
            refresh=None if is_still or 400 <= status < 500 else REFRESH_SECONDS,
        )
        base = templates().get_template("base.html")
        now = datetime.now(UTC) if snapshot is None else snapshot.now
        viewer, shown = SimpleNamespace(now=now, zone=self.zone), SimpleNamespace(**view)
        text = base.render(page_request=self, frame=frame, viewer=viewer, view=shown)
        return HTMLResponse(text, status, {"retry-after": "5"} if status == 503 else {})

    def redirect(self, route: str, done: str | None, /, **segments: Any) -> Response:
        """Look at this page (303); what a verb has done is a word of `NOTICES`."""
        return RedirectResponse(self.link(route, {"done": done}, **segments), 303)

    @property
    def is_live(self) -> bool:
        """Whether the script sent it, which needs the page's content alone."""
        return LIVE_HEADER in self.request.headers

    @cached_property
    def zone(self) -> ZoneInfo:
        """The viewer's zone: ``?tz=``, else the browser's (a cookie), else UTC."""
        browsers = _known_zone(self.request.cookies.get(ZONE_COOKIE))
        return self._chosen_zone or browsers or load_zone("UTC")

    @cached_property
    def _chosen_zone(self) -> ZoneInfo | None:
        """The zone that the address chose, if there is one of that name: links keep it."""
        return _known_zone(self.request.query_params.get("tz"))


Endpoint: TypeAlias = Callable[[PageRequest], Awaitable[Response]]


def together(*asked: Ask[Any]) -> Ask[list[Any]]:
    """Asks all of them the same, in one transaction; what each gave."""

    async def ask(connection: Any, *given: Any, **more: Any) -> list[Any]:
        return [await query(connection, *given, **more) for query in asked]

    return ask


def _known_zone(name: str | None) -> ZoneInfo | None:
    """None for what is no zone here: a browser's tzdata may be newer."""
    return load_zone(name) if name in zone_names() else None
