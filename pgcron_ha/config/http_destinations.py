"""What a node may call: destinations of the configuration file, offered as ``http:NAME``.

Scheme, host and port stand in the file. A run gives values for placeholders in the path and the
query, and a body; nothing that comes from the database chooses whom a node speaks to.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pgcron_ha.config.breaker import Breaker
from pgcron_ha.config.capability_table import PLACEHOLDER, CapabilityTable
from pgcron_ha.config.secret_reference import SecretReference, parse_secret_reference

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Statuses: TypeAlias = tuple[range, ...]

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
DEFAULT_REQUEST_TIMEOUT: Final = 30.0
DEFAULT_CONNECTIONS: Final = 10
MAX_CONNECTIONS: Final = 1_000
MAX_POLL_SECONDS: Final = 3600.0
MAX_URL_CHARACTERS: Final = 4_000
COMPLETIONS: Final = ("answer", "poll", "callback")
CALLBACK_PLACEHOLDERS: Final = ("callback_url", "callback_token")
"""What the body of a destination with callbacks may name beside its placeholders."""

PREVIOUS_PLACEHOLDER: Final = "pgcron_previous"
"""What the body of a destination that is told of the run before may name."""

EVERYTHING: Final[tuple[Network, ...]] = (
    ipaddress.ip_network("0.0.0.0/0"),
    ipaddress.ip_network("::/0"),
)
# What may be another time: too early, too many, a time-out, a server that is not well.
DEFAULT_RETRY: Final[Statuses] = (
    *(range(status, status + 1) for status in (408, 425, 429)),
    range(500, 600),
)

# Written by us for each run, or by the client for each connection.
_OWN_HEADERS = {
    *("accept-encoding", "authorization", "connection", "content-length", "host"),
    *("idempotency-key", "te", "traceparent", "transfer-encoding", "upgrade"),
}
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]{0,4000}")
_CLASS = re.compile(r"([1-5])xx")


@dataclass(frozen=True, slots=True)
class HttpAuthorization:
    """How a request says who it is: by `secret`, as a bearer token, a password or a header."""

    scheme: Literal["bearer", "basic", "header"]
    secret: SecretReference
    user: str = ""
    header: str = ""


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """The value that must stand at a place of a JSON answer; numbers in `path` count items."""

    path: tuple[str, ...]
    value: str | int | float | bool


@dataclass(frozen=True, slots=True)
class HttpDestination:
    """One service. ``{name}`` in `url` and `body` stands for an arg of the run, whose text must
    match ``placeholders[name]`` from end to end.

    `body` None: the run's args as JSON where the method has a body; False: none; a text; or what
    becomes JSON. `timeout` (the whole run), `request_timeout` (one exchange) and `poll` (the
    pause between two looks at work that the service accepted) are seconds. `completion` is how a
    run ends that the service answers with 202: as that ``answer``, as the service says when it is
    asked (``poll``), or as it says by a ``callback``. `allow_private` are the networks that are
    no public ones and may be connected to all the same. With `previous` the service is told how the
    schedule's run before this one ended.
    """

    name: str
    url: str
    placeholders: Mapping[str, str]
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    auth: HttpAuthorization | None = None
    timeout: float | None = None
    request_timeout: float = DEFAULT_REQUEST_TIMEOUT
    expect: Statuses = (range(200, 300),)
    retry: Statuses = DEFAULT_RETRY
    discard: Statuses = ()
    check: AnswerCheck | None = None
    poll: float | None = None
    completion: Literal["answer", "poll", "callback"] = "answer"
    connections: int = DEFAULT_CONNECTIONS
    allow_private: tuple[Network, ...] = ()
    ca_file: str | None = None
    breaker: Breaker | str | None = None
    previous: bool = False

    @property
    def is_in_the_clear(self) -> bool:
        """Whether anybody on the way can read what is sent: no secret is."""
        return self.url.startswith("http:") and not self.allow_private


KEYS = tuple(each.name for each in fields(HttpDestination) if each.name != "name")


def read_http_destinations(
    tables: Mapping[str, object],
) -> tuple[dict[str, HttpDestination], list[str]]:
    """The destinations of the tables ``[http.NAME]``, and a sentence for each thing wrong there."""
    destinations: dict[str, HttpDestination] = {}
    problems: list[str] = []
    for name, table in tables.items():
        reader = _HttpTable("http", name, table, KEYS)
        destination = reader.read()
        if reader.problems:
            problems.extend(reader.problems)
        else:
            destinations[name] = destination
    return destinations, problems


class _HttpTable(CapabilityTable):
    def read(self) -> HttpDestination:
        placeholders = self.placeholders()
        private = self._networks()
        destination = HttpDestination(
            name=self.name,
            url=self._url(placeholders),
            placeholders=MappingProxyType(placeholders),
            method=self._method(),
            headers=MappingProxyType(self._headers()),
            body=self._body(placeholders),
            auth=self._authorization(),
            timeout=self.seconds("timeout"),
            request_timeout=self.seconds("request_timeout") or DEFAULT_REQUEST_TIMEOUT,
            expect=self._statuses("expect", (range(200, 300),)),
            retry=self._statuses("retry", DEFAULT_RETRY),
            discard=self._statuses("discard", ()),
            check=self._check(),
            poll=self.seconds("poll", MAX_POLL_SECONDS),
            completion=self._completion(placeholders),
            connections=self.integer("connections", DEFAULT_CONNECTIONS, 1, MAX_CONNECTIONS),
            allow_private=private,
            ca_file=self._ca_file(),
            breaker=self.breaker(),
            previous=self.flag("previous"),
        )
        if destination.is_in_the_clear and destination.auth is not None:
            self.refuse("auth", "a secret is not sent in the clear: use https, or allow_private")
        if destination.is_in_the_clear and destination.completion == "callback":
            self.refuse(
                "completion", "a token is not sent in the clear: use https, or allow_private"
            )
        if destination.previous and PREVIOUS_PLACEHOLDER in placeholders:
            self.refuse(f"placeholders.{PREVIOUS_PLACEHOLDER}", "is the run before, and no arg")
        if destination.method == "HEAD" and destination.check is not None:
            self.refuse("check", "an answer to HEAD has no body")
        return destination

    def _completion(self, placeholders: Mapping[str, str]) -> Literal["answer", "poll", "callback"]:
        asks = "poll" in self.table
        given = self.table.get("completion", "poll" if asks else "answer")
        if given not in COMPLETIONS:
            self.refuse("completion", f"'{given}': expected one of {', '.join(COMPLETIONS)}")
        elif given == "poll" and not asks:
            self.refuse("completion", "'poll' needs poll, the pause between two questions")
        elif given != "poll" and asks:
            self.refuse("completion", f"'{given}' does not go with poll")
        for name in CALLBACK_PLACEHOLDERS if given == "callback" else ():
            if name in placeholders:
                self.refuse(f"placeholders.{name}", "is made for each run, and not the run's arg")
        return given  # type: ignore[return-value]

    def _url(self, placeholders: Mapping[str, str]) -> str:
        url = self.text("url")
        if url is None:
            if "url" not in self.table:
                self.refuse("url", "expected a URL such as https://example.com/orders/{order}")
            return ""
        self._look_at_place(url)
        for name in sorted(set(PLACEHOLDER.findall(url)) - placeholders.keys()):
            self.refuse("url", f"'{{{name}}}' is not declared in placeholders")
        if PLACEHOLDER.sub("", url).count("{") or PLACEHOLDER.sub("", url).count("}"):
            self.refuse("url", "a brace stands only around the name of a placeholder")
        return url

    def _look_at_place(self, url: str) -> None:
        """Refuse what is no plain URL, or leaves the place to the run."""
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname
        except ValueError as error:
            self.refuse("url", f"is no URL: {error}")
            return
        if not url.startswith(("http://", "https://")) or not host:
            self.refuse("url", "expected http://HOST… or https://HOST…")
        if "{" in parts.netloc:
            self.refuse("url", "scheme, host and port can't come from a run: no placeholder there")
        if "@" in parts.netloc:
            self.refuse("url", "user and password have no place in it: use auth")
        if "#" in url or port == 0:
            self.refuse("url", "has a fragment or the port 0")
        if len(url) > MAX_URL_CHARACTERS or not re.fullmatch(r"[\x21-\x7e]*", url):
            self.refuse("url", f"expected at most {MAX_URL_CHARACTERS} ASCII characters, no blanks")

    def _method(self) -> str:
        method = (self.text("method") or "POST").upper()
        if method not in METHODS:
            self.refuse("method", f"'{method}': expected one of {', '.join(METHODS)}")
        return method

    def _headers(self) -> dict[str, str]:
        raw = self.table.get("headers", {})
        if not isinstance(raw, dict):
            self.refuse("headers", 'expected a table such as { Accept = "application/json" }')
            return {}
        for name, value in raw.items():
            own = name.lower() in _OWN_HEADERS or name.lower().startswith("pgcron-")
            if not _HEADER.fullmatch(name) or own:
                self.refuse(f"headers.{name}", "is no header, or one that is not set here")
            if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
                self.refuse(f"headers.{name}", "expected a string of printable ASCII")
        return raw

    def _body(self, placeholders: Mapping[str, str]) -> Any:
        body = self.table.get("body")
        if body is True or not isinstance(body, str | dict | list | bool | None):
            self.refuse("body", "expected a string, a table or list that becomes JSON, or false")
            return None
        is_called_back = self.table.get("completion") == "callback"
        made = CALLBACK_PLACEHOLDERS if is_called_back else ()
        if self.table.get("previous") is True:
            made = (*made, PREVIOUS_PLACEHOLDER)
        for name in sorted(_names_in(body) - placeholders.keys() - {*made}):
            self.refuse("body", f"'{{{name}}}' is not declared in placeholders")
        if not _is_json(body):
            self.refuse("body", "JSON has no dates, times, infinities and NaN")
        return body

    def _authorization(self) -> HttpAuthorization | None:
        raw = self.table.get("auth")
        if raw is None:
            return None
        needed = {"bearer": set(), "basic": {"user"}, "header": {"header"}}
        scheme = raw.get("scheme") if isinstance(raw, dict) else None
        if not isinstance(raw, dict) or not isinstance(scheme, str) or scheme not in needed:
            self.refuse(
                "auth", 'expected a table such as { scheme = "bearer", secret = "env:KEY" }'
            )
            return None
        if raw.keys() != {"scheme", "secret", *needed[scheme]}:
            keys = ", ".join(["scheme", "secret", *needed[scheme]])
            self.refuse("auth", f"the keys of this scheme are {keys}")
            return None
        try:
            secret = parse_secret_reference(raw["secret"])
        except ValueError as error:
            self.refuse("auth.secret", f"expected {error}")
            return None
        user, header = raw.get("user", ""), raw.get("header", "X")
        if not isinstance(user, str) or ":" in user or not user.isprintable():
            self.refuse("auth.user", "expected a name without a colon")
        fits = isinstance(header, str) and _HEADER.fullmatch(header) is not None
        if not fits or header.lower() in _OWN_HEADERS:
            self.refuse("auth.header", "expected the name of a header of the service's own")
        return HttpAuthorization(scheme, secret, str(user), str(header))  # type: ignore[arg-type]

    def _statuses(self, key: str, default: Statuses) -> Statuses:
        raw = self.table.get(key)
        if raw is None:
            return default
        found: list[range] = []
        for item in raw if isinstance(raw, list) else [None]:
            whole = _CLASS.fullmatch(item) if isinstance(item, str) else None
            if whole:
                found.append(range(int(whole[1]) * 100, int(whole[1]) * 100 + 100))
            elif isinstance(item, int) and not isinstance(item, bool) and 200 <= item < 600:
                found.append(range(item, item + 1))
            else:
                self.refuse(key, 'expected a list of statuses such as [200, 404, "5xx"]')
                return default
        return tuple(found)

    def _check(self) -> AnswerCheck | None:
        raw = self.table.get("check")
        if raw is None:
            return None
        path = raw.get("path") if isinstance(raw, dict) else None
        value = raw.get("value") if isinstance(raw, dict) else None
        is_path = isinstance(path, str) and 0 < len(path) <= 200
        if not is_path or not isinstance(value, str | int | float) or len(raw) != 2:  # type: ignore[arg-type]
            self.refuse("check", 'expected a table such as { path = "order.state", value = "ok" }')
            return None
        return AnswerCheck(tuple(str(path).split(".")), value)

    def _networks(self) -> tuple[Network, ...]:
        raw = self.table.get("allow_private", False)
        if isinstance(raw, bool):
            return EVERYTHING if raw else ()
        try:
            return tuple(ipaddress.ip_network(each) for each in self.texts("allow_private"))
        except ValueError as error:
            self.refuse("allow_private", f'{error}; expected true or networks such as "10.0.0.0/8"')
            return ()

    def _ca_file(self) -> str | None:
        path = self.text("ca_file")
        if path is not None and not Path(path).is_absolute():
            self.refuse("ca_file", f"'{path}': expected an absolute path")
        return path


def _names_in(body: Any) -> set[str]:
    if isinstance(body, dict):
        return set().union(*map(_names_in, body.values()))
    if isinstance(body, list):
        return set().union(*map(_names_in, body))
    return set(PLACEHOLDER.findall(body)) if isinstance(body, str) else set()


def _is_json(body: Any) -> bool:
    if isinstance(body, dict):
        return all(map(_is_json, body.values()))
    if isinstance(body, list):
        return all(map(_is_json, body))
    if isinstance(body, float):
        return float("-inf") < body < float("inf")
    return body is None or isinstance(body, str | int | bool)
