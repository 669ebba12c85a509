"""What every request must be, and what every response carries: the outermost layer.

A request names this site (another one could otherwise point its own name at this server). Only its
own pages may change anything (`is_same_origin`), and pages of other sites may lead to a page here,
but not read or embed one (`is_isolated`). Without login only this machine may connect
(`require_loopback`).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgcron_ha.config.page_settings import HOST
from pgcron_ha.config.values import LOOPBACK, Address
from pgcron_ha.errors import ConfigError

# Args of a schedule have 256 KiB; a form writes a byte with up to three characters.
MOST_BODY_BYTES: Final = 1024 * 1024
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
FOR_MACHINES: Final = frozenset({"/livez", "/readyz", "/startupz"})

# A Host header: a name or an address, and a port.
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?")
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types pgcron-live"
)
PLAIN_HEADERS: Final[Mapping[str, str]] = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}
"""Of every answer, also where there is no page."""
HEADERS: Final[Mapping[str, str]] = {
    **PLAIN_HEADERS,
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def require_loopback(address: Address) -> None:
    """Raises ConfigError unless only this machine can connect to `address`."""
    if address.host.lower() not in LOOPBACK:
        raise ConfigError(
            f"the web can't listen on '{address}'",
            "Without login, and without TLS or a proxy that has it, only 127.0.0.1, [::1] and"
            " localhost are allowed.",
            "Configure login and TLS (`pgcron-ha docs log-in`), or listen on 127.0.0.1 and reach it"
            " from elsewhere with `ssh -L 8420:127.0.0.1:8420`.",
        )


def peer_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address without its zone; an IPv4 address that an IPv6 socket shows becomes IPv4 again.
    Raises ValueError if the text is no address.
    """
    found = ipaddress.ip_address(text.partition("%")[0])
    return getattr(found, "ipv4_mapped", None) or found


@dataclass(frozen=True)
class Site:
    """The names and origins of this site, beside those of this machine's loopback."""

    hosts: frozenset[str] = frozenset()
    public: str | None = None
    """The origin that browsers see, where a proxy has another one."""

    @classmethod
    def of(cls, hosts: Collection[str], public_url: str | None) -> Self:
        """With the host of the public address. ConfigError for what is the name of no host."""
        wrong = [host for host in hosts if not re.fullmatch(HOST, host)]
        if wrong:
            raise ConfigError(
                f"the pages can't be reached by the host {wrong[0][:100]!r}",
                "Hosts are a list of whole names or addresses, without ports, * or a leading dot.",
                "List each name that browsers use, such as 'app.example.com'.",
            )
        url = urlsplit(public_url or "")
        named = {host.lower().strip("[]") for host in (*hosts, url.hostname or "") if host}
        return cls(frozenset(named), f"{url.scheme}://{url.netloc}" if public_url else None)

    def has(self, host: str) -> bool:
        """Whether a Host header names this site, so that no foreign name was pointed at it."""
        found = _HOST.fullmatch(host)
        return found is not None and found[1].lower().strip("[]") in LOOPBACK | self.hosts

    def origin(self, scope: Scope) -> str:
        """The origin that the browser sees, by the host that it names."""
        host = Headers(scope=scope).get("host", "")
        is_public = self.public is not None and self.public.partition("://")[2] == host
        return str(self.public) if is_public else f"{scope['scheme']}://{host}"


def is_same_origin(headers: Mapping[str, str], own: str) -> bool:
    """Whether a page of this site (`own` is its origin) sent the request, by Sec-Fetch-Site or else
    by Origin.

    Browsers send one of them with every POST; a program that sends neither proves nothing.
    """
    site = headers.get("sec-fetch-site")
    return site == "same-origin" if site is not None else headers.get("origin") == own


def brings_token(headers: Mapping[str, str]) -> bool:
    """Whether a program sent the request, which has a token: then nothing else counts."""
    return headers.get("authorization", "").split(" ")[0].lower() == "bearer"


def is_isolated(headers: Mapping[str, str]) -> bool:
    """Whether no page of another site reads or embeds the answer: it comes from this site, from
    nowhere, or replaces that page. What sends no Sec-Fetch-Site is no browser of today.
    """
    if headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
        return True
    where = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return where == ("navigate", "document")


class Guard:
    """The layer around the application: refuses what must not come in, adds headers to the rest."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; anything but HTTP (and the server's own start and stop) is closed."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            app = _refusal(scope, self._site) or self._app
            is_encrypted = self._site.origin(scope).startswith("https:")
            await app(_as_sent(scope), _bounded(receive), _with_headers(send, is_encrypted))


def _as_sent(scope: Scope) -> Scope:
    """With the path as it was sent, so that an escaped ``/`` stays inside its segment."""
    raw = scope.get("raw_path")
    return {**scope, "path": raw.decode("latin-1").partition("?")[0]} if raw else scope


class BodyTooLarge(Exception):
    """The body has more than `MOST_BODY_BYTES`."""


def _refusal(scope: Scope, site: Site) -> Response | None:
    """The answer to a request that is refused; None for one that is not."""
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not site.has(hosts[0]):
        return _refused(
            421,
            "This server answers to localhost, 127.0.0.1, [::1] and the names that web.public_url"
            " and web.hosts say.",
        )
    if scope["method"] in SAFE_METHODS:
        if is_isolated(headers) or own_path(scope) in FOR_MACHINES:
            return None
        return _refused(403, "Pages of other sites may lead here, but not read or embed this.")
    if scope["method"] != "POST":
        return _refused(405, "Only GET, HEAD and POST are known here.", allow="GET, HEAD, POST")
    if brings_token(headers):
        return None  # a browser sends no such header by itself, and then no cookie counts
    if not is_same_origin(headers, site.origin(scope)):
        return _refused(
            403,
            "The request was refused: it does not come from a page of this server.\n"
            "A program proves that it means this server by sending the header "
            f"Origin: {site.origin(scope)}",
        )
    return None


def own_path(scope: Mapping[str, Any]) -> str:
    """Without the prefix under which an application has mounted the pages."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _refused(status: int, sentence: str, **headers: str) -> Response:
    return PlainTextResponse(f"{sentence}\n", status, headers)


def _bounded(receive: Receive) -> Receive:
    taken = 0

    async def receive_within_bounds() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > MOST_BODY_BYTES:
                raise BodyTooLarge
        return message

    return receive_within_bounds


def _with_headers(send: Send, is_encrypted: bool) -> Send:
    """Adds `HEADERS` to a response; one that brings its own value of a header keeps it."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if is_encrypted:
                headers.setdefault("strict-transport-security", "max-age=31536000")
        await send(message)

    return send_with_headers
