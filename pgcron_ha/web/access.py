"""Who sent a request, and who is let in.

Without login a request brings the cookie that the printed key has given (`LocalKey`), or comes by a
socket that only this user can open. With login it brings the cookie of a session, or a listed proxy
names its user. A program brings a token. An application that the pages are mounted in says itself
who it is (`Entry.authenticate`).
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from pgcron_ha.config.page_settings import AuthSettings
from pgcron_ha.credentials import hashed, read_token
from pgcron_ha.db.commands import login
from pgcron_ha.db.driver.pool import ClientPool
from pgcron_ha.db.driver.session import Statement
from pgcron_ha.errors import DatabaseUnavailable
from pgcron_ha.model.permissions import LOCAL, Grant, Person
from pgcron_ha.web.metrics import WebMetrics
from pgcron_ha.web.oidc import Provider, usable_groups
from pgcron_ha.web.reading import Reader
from pgcron_ha.web.security import SAFE_METHODS, Site, brings_token, peer_address

Authenticate: TypeAlias = Callable[[Request], Awaitable[Person | None]]

REMEMBERED_SECONDS: Final = 600.0
"""While the database is away, who was let in within this time may go on reading."""

_MOST_REMEMBERED: Final = 1000
_NAME: Final = re.compile(r"[A-Za-z0-9_.@+-]{1,100}")


class BadToken(Exception):
    """A request brings a token that is not valid: it is nobody's, whatever else it brings."""


class LocalKey:
    """Of pages without login: an address that works once."""

    def __init__(self, cookie: str | None = None) -> None:
        """`cookie` is what browsers get for a key; a process that starts anew can keep it."""
        self.cookie = cookie or secrets.token_urlsafe(32)
        self.announce: Callable[[str], None] = lambda path: None
        """Gets the next address when one was used."""
        self._key = secrets.token_urlsafe(32)

    @property
    def path(self) -> str:
        """Where to enter, once."""
        return f"/enter/{self._key}"

    def use(self, key: str) -> bool:
        """Whether it is the key; then it is none any more."""
        if not _same(key, self._key):
            return False
        self._key = secrets.token_urlsafe(32)
        self.announce(self.path)
        return True


@dataclass(frozen=True)
class Entry:
    """How people come to the pages. Without any way nobody does."""

    authenticate: Authenticate | None = None
    """Of an application that the pages are mounted in; None: nobody sent it."""
    hosts: Collection[str] = ()
    """Names by which browsers reach them, beside those of this machine's loopback."""
    public_url: str | None = None
    auth: AuthSettings | None = None
    """How users log in, if they do."""
    key: LocalKey | None = None
    is_private: bool = False
    """Only the user of this process can connect."""

    @property
    def site(self) -> Site:
        """The names and origins of the pages."""
        return Site.of(self.hosts, self.public_url)


class Access:
    """Says of each request who sent it. Belongs to one application."""

    def __init__(
        self, entry: Entry, writers: ClientPool, reader: Reader, metrics: WebMetrics
    ) -> None:
        """Users, sessions and tokens are in the database of `writers`."""
        self.entry = entry
        self._writers = writers
        self.auth = entry.auth
        self.passwords = None
        if self.auth is not None and self.auth.local:
            # Without users who have passwords it need not be installed.
            from pgcron_ha.web.passwords import Passwords

            self.passwords = Passwords(metrics)
        self.provider = None
        if self.auth is not None and self.auth.oidc_issuer is not None:
            self.provider = Provider(self.auth, entry.public_url)
        self._reader = reader
        self._remembered: OrderedDict[Any, tuple[float, Person]] = OrderedDict()

    async def call(self, statement: Statement[Any], *values: Any, **options: Any) -> Any:
        """One statement about them, in a transaction of its own."""
        async with self._writers.connection() as connection:
            return await statement(connection, *values, schema=self._reader.schema, **options)

    async def person(self, request: Request) -> Person | None:
        """Who sent it; None: somebody who has not logged in. BadToken, DatabaseUnavailable."""
        entry = self.entry
        if entry.authenticate is not None:
            return await entry.authenticate(request)
        if brings_token(request.headers):
            return await self._of_token(request)
        if entry.is_private and self.auth is None:
            return LOCAL
        given = request.cookies.get(self.cookie_name(request), "")
        if entry.key is not None:
            return LOCAL if _same(given, entry.key.cookie) else None
        named = self.named(request)
        if named is not None:
            return await self._asked(request, login.user_of_proxy, *named)
        return await self._asked(request, login.user_of_session, hashed(given)) if given else None

    def cookie_name(self, request: HTTPConnection, what: str = "") -> str:
        """Of the session, or of something else. Over http it has the port: all ports of a host
        share their cookies.
        """
        origin = urlsplit(self.entry.site.origin(request.scope))
        if origin.scheme == "https":
            return f"__Host-pgcron{what}"
        return f"pgcron{what}_{origin.port or 80}"

    def set_cookie(
        self,
        request: Request,
        answer: Response,
        value: str,
        life: float,
        what: str = "",
        same_site: Literal["lax", "strict"] = "lax",
    ) -> None:
        """Gives the browser its session, or something else to bring."""
        name = self.cookie_name(request, what)
        secure = name.startswith("__Host-")
        answer.set_cookie(
            name, value, max_age=int(life), httponly=True, samesite=same_site, secure=secure
        )

    def session_id(self, request: Request) -> bytes:
        """The hash of the session that the browser says it has."""
        return hashed(request.cookies.get(self.cookie_name(request), ""))

    def is_proxy(self, address: str | None) -> bool:
        """Whether a proxy at this address is believed."""
        proxies = self.auth.proxy_addresses if self.auth is not None else ()
        with suppress(ValueError):
            return any(peer_address(address or "") in network for network in proxies)
        return False

    def address(self, request: Request) -> str | None:
        """Where it comes from: of the addresses that proxies name the last that is no proxy's."""
        found = None
        hops = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
        hops.append("" if request.client is None else request.client.host)
        with suppress(ValueError):
            while hops and (found is None or self.is_proxy(found)):
                found = str(peer_address(hops.pop().strip()))
        return found

    def named(self, request: Request) -> tuple[str, tuple[str, ...]] | None:
        """The user and the groups that a proxy names; None: none does."""
        peer = None if request.client is None else request.client.host
        if self.auth is None or not self.is_proxy(peer):
            return None
        names = request.headers.getlist(self.auth.proxy_user_header)
        if len(names) != 1 or not _NAME.fullmatch(names[0]):
            return None
        listed = ",".join(request.headers.getlist(self.auth.proxy_groups_header)).split(",")
        return names[0], usable_groups(group.strip() for group in listed)

    async def _of_token(self, request: Request) -> Person:
        token = read_token(request.headers["authorization"].partition(" ")[2].strip())
        if token is not None:
            found = await self._asked(request, login.user_of_token, token.id, token.secret_hash)
            if found is not None:
                return found
        raise BadToken

    async def _asked(self, request: Request, user: Statement[Any], *values: Any) -> Person | None:
        """Of the database; while it is away what it said of late, to those who only read."""
        at, known = self._remembered.get(values, (0.0, None))
        if request.method not in SAFE_METHODS or monotonic() - at > REMEMBERED_SECONDS:
            known = None
        if known is not None and isinstance(self._reader.problem, DatabaseUnavailable):
            return known
        try:
            row = await self.call(user, *values)
        except DatabaseUnavailable:
            if known is None:
                raise
            return known
        self._remembered.pop(values, None)
        if row is None:
            return None
        grants = tuple(Grant(*grant) for grant in row["grants"])
        person = Person(f"ui:{row['name']}", grants, row["shown"])
        self._remembered[values] = (monotonic(), person)
        if len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return person


def inner_path(given: str | None, otherwise: str) -> str:
    """Where to go after a login: a path of this site, never another site's address."""
    path = given or ""
    is_path = re.fullmatch(r"/(?![/\\])[!-~]{0,999}", path) is not None
    return path if is_path else otherwise


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(), known.encode())
