"""One request as a page sees it: what was asked, how to read, how to answer."""

from __future__ import annotations

import difflib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from pgcron_ha.db.answers import answers
from pgcron_ha.db.clients import ClientPools
from pgcron_ha.errors import InvalidInput, UnknownZone
from pgcron_ha.model.zones import load_zone
from pgcron_ha.web.links import Links, NoSuchRoute
from pgcron_ha.web.metrics import Pulse, WebMetrics
from pgcron_ha.web.reading import Read, Reader, Snapshot
from pgcron_ha.web.templating import StaticFiles, Templates
from pgcron_ha.web.viewing import NAVIGATION, NOTICES, PageFrame, Viewer

T = TypeVar("T")

# Everybody who can reach the pages is this person until there is a login.
ACTOR: Final = "ui:local"
DOOR: Final = "ui"
# Asked for by the script: the page without its frame.
LIVE_HEADER: Final = "x-pgcron-live"
ZONE_COOKIE: Final = "pgcron_zone"
MOST_FIELDS: Final = 40
MOST_QUERY_VALUE: Final = 1_000
# A page has some 100 KB, so these are some megabytes.
MOST_TEXTS: Final = 32
# How often an open page is looked at again; reads are shared, so it costs a page's text.
REFRESH_SECONDS: Final = 3
# In every address: the viewer's zone, and what was just done.
_FRAME_FIELDS: Final = ("tz", "done")


class Texts:
    """Pages that were drawn for a snapshot that is still fresh: fifty viewers cost one drawing."""

    def __init__(self) -> None:
        self._texts: OrderedDict[Hashable, str] = OrderedDict()

    def get(self, key: Hashable) -> str | None:
        """The text for this key, or None."""
        return self._texts.get(key)

    def keep(self, key: Hashable, text: str) -> None:
        """Remember a text; the oldest beyond `MOST_TEXTS` is forgotten."""
        self._texts[key] = text
        while len(self._texts) > MOST_TEXTS:
            self._texts.popitem(last=False)


@dataclass(frozen=True)
class Services:
    """What the pages of one application share."""

    dsn: str
    schema: str
    version: str
    reader: Reader
    writers: ClientPools
    templates: Templates
    static: StaticFiles
    links: Links
    texts: Texts
    metrics: WebMetrics
    pulse: Pulse


class Visit:
    """One request. Pages use nothing else of the web framework."""

    actor: Final = ACTOR
    door: Final = DOOR

    def __init__(self, request: Request, services: Services, permission: str) -> None:
        self.request = request
        self.services = services
        self.permission = permission

    @property
    def schema(self) -> str:
        """The schema the tables stand in."""
        return self.services.schema

    def segment(self, name: str) -> str:
        """A part of the path, decoded: ``{name}`` of the route."""
        return str(self.request.path_params[name])

    def query(self, *known: str) -> dict[str, str]:
        """The values of the address that are given and not empty.

        Raises InvalidInput for a name that this page does not know, one given twice, or a value
        that is too long. ``tz`` and ``done`` are the frame's and always allowed.
        """
        return _fields(self.request.url.query, known, "the address", _FRAME_FIELDS)

    async def form(self, *known: str) -> dict[str, str]:
        """The values of a posted form that are given and not empty; InvalidInput as `query`."""
        kind = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        body = await self.request.body()
        if body and kind != "application/x-www-form-urlencoded":
            raise InvalidInput(
                f"the form came as '{kind[:80]}'",
                "Forms are application/x-www-form-urlencoded.",
                "Send it as a browser does.",
            )
        try:
            text = body.decode()
        except UnicodeDecodeError as error:
            raise InvalidInput("the form is not UTF-8", str(error), "Send UTF-8.") from error
        return _fields(text, known, "the form", ())

    async def read(self, key: Hashable, read: Read[T], **options: Any) -> Snapshot[T]:
        """What `read(connection)` gives, shared with other viewers: see `Reader.snapshot`."""
        return await self.services.reader.snapshot(key, read, **options)

    async def act(self, verb: Callable[[Any], Awaitable[T]]) -> T:
        """What `verb(connection)` does, in a transaction of its own. Give it `actor` and `door`.

        Whoever reads afterwards sees it.
        """
        async with self.services.writers.connection(self.services.dsn) as connection:
            with answers():
                async with connection.transaction():
                    done = await verb(connection)
            self.services.reader.expire()
            return done

    def link(self, route: str, query: dict[str, Any] | None = None, /, **segments: Any) -> str:
        """The path of a route by its name, with these values in the address; None is left out."""
        path = self.services.links.path(route, segments)
        root = self.request.scope.get("root_path", "")
        given = {key: value for key, value in (query or {}).items() if value is not None}
        if "tz" in self.request.query_params:
            given.setdefault("tz", self.request.query_params["tz"])
        return f"{root}{path}" + (f"?{urlencode(given)}" if given else "")

    def link_if_there(
        self, route: str, query: dict[str, Any] | None = None, /, **segments: Any
    ) -> str | None:
        """As `link`; None while this version has no such page."""
        try:
            return self.link(route, query, **segments)
        except NoSuchRoute:
            return None

    def navigation(self) -> Sequence[tuple[str, str, str]]:
        """The pages that this version has: route, word, key."""
        return [entry for entry in NAVIGATION if self.link_if_there(entry[0])]

    def page(
        self,
        template: str,
        view: object,
        snapshot: Snapshot[Any] | None,
        *,
        title: str,
        section: str,
        status: int = 200,
        **more: Any,
    ) -> Response:
        """The page of a template, which gets `view` (a dataclass of `contexts`), `viewer`, `frame`.

        `snapshot` is what `view` was made of: its clock is the page's, and a problem of it becomes
        the banner of a page from memory.
        """
        if snapshot is not None and snapshot.problem is not None and status == 200:
            status = 503
        frame = PageFrame(
            title=title,
            section=section,
            is_live=self.is_live,
            problem=None if snapshot is None else snapshot.problem,
            read_at=None if snapshot is None else snapshot.read_at,
            notice=NOTICES.get(self.request.query_params.get("done", "")),
            version=self.services.version,
            refresh=REFRESH_SECONDS if status < 400 or status >= 500 else None,
        )
        now = snapshot.now if snapshot else datetime.now(UTC)
        values = {"visit": self, "frame": frame, "viewer": self.viewer_at(now), "view": view}
        text = self.services.templates.render(template, **values, **more)
        if snapshot is not None and status == 200:
            self.services.texts.keep(self._text_key(snapshot), text)
        headers = {"retry-after": "5"} if status == 503 else {}
        return HTMLResponse(text, status, headers)

    def drawn(self, snapshot: Snapshot[Any]) -> Response | None:
        """This page as it was drawn for the same snapshot, if it was: ask before drawing."""
        text = self.services.texts.get(self._text_key(snapshot))
        return None if text is None or snapshot.problem else HTMLResponse(text)

    def _text_key(self, snapshot: Snapshot[Any]) -> Hashable:
        """Everything that a drawn page depends on; permissions belong here once there are some."""
        url = self.request.url
        root = self.request.scope.get("root_path", "")
        return (snapshot.number, root, url.path, url.query, self.zone.key, self.is_live)

    def redirect(
        self, route: str, query: dict[str, Any] | None = None, /, **segments: Any
    ) -> Response:
        """After a verb: look at this page (303). ``done`` in `query` is a word of NOTICES."""
        return RedirectResponse(self.link(route, query, **segments), 303)

    @property
    def is_live(self) -> bool:
        """Whether the script asks, which needs the page's content alone."""
        return LIVE_HEADER in self.request.headers

    @cached_property
    def zone(self) -> ZoneInfo:
        """The viewer's zone: ``?tz=``, else the browser's (a cookie), else UTC. UnknownZone."""
        asked = self.request.query_params.get("tz")
        if asked:
            return load_zone(asked)
        try:
            return load_zone(self.request.cookies.get(ZONE_COOKIE, "UTC"))
        except UnknownZone:  # a browser whose zones are newer than ours
            return load_zone("UTC")

    def require_known_zone(self) -> None:
        """Raises UnknownZone, with the nearest names, for a ``?tz=`` that is no zone."""
        _ = self.zone

    def viewer_at(self, now: datetime) -> Viewer:
        """Who looks, at this instant."""
        try:
            return Viewer(now, self.zone)
        except UnknownZone:
            return Viewer(now, load_zone("UTC"))  # the page that says so needs a zone, too


def choice(given: str | None, known: tuple[str, ...], what: str) -> str | None:
    """`given` if it is one of the `known` words, None for None; else InvalidInput."""
    if given is None or given in known:
        return given
    raise InvalidInput(
        f"'{given[:100]}' is not a {what}",
        f"A {what} is one of {', '.join(known)}.",
        _did_you_mean(given, known),
    )


def _fields(
    text: str, known: tuple[str, ...], where: str, frame: tuple[str, ...]
) -> dict[str, str]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise InvalidInput(
            f"{where} can't be read", str(error), "Take the link from a page of ours."
        ) from error
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in known and name not in frame:
            raise InvalidInput(
                f"{where} has an unknown filter '{name[:100]}'"
                if where == "the address"
                else f"{where} has an unknown field '{name[:100]}'",
                f"Known here: {', '.join(known) or 'none'}.",
                _did_you_mean(name, known),
            )
        if name in found or len(value) > MOST_QUERY_VALUE:
            raise InvalidInput(
                f"'{name}' stands twice or is too long",
                f"Each may be given once, with up to {MOST_QUERY_VALUE} characters.",
                "Remove the others.",
            )
        found[name] = value
    return {name: value for name, value in found.items() if value and name not in frame}


def _did_you_mean(given: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(given[:100], known, n=1, cutoff=0.5)
    return f"Did you mean '{near[0]}'?" if near else "Leave it out."
