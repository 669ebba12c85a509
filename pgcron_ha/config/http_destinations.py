"""What a node may call: destinations of the configuration file, offered as ``http:NAME``.

Scheme, host and port are in the file. A run gives values for placeholders in the path and the
query, and a body; nothing that comes from the database chooses whom a node speaks to.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pgcron_ha.config.capability_table import (
    PLACEHOLDER,
    TIME_LIMIT,
    Refused,
    Template,
    patterns_by_name,
)
from pgcron_ha.config.secret_references import SecretReference, parse_secret_reference
from pgcron_ha.config.values import Network, absolute_path, choice, duration, flag, integer, texts

Statuses: TypeAlias = tuple[range, ...]

MAX_URL_CHARACTERS: Final = 4_000
PREVIOUS_PLACEHOLDER: Final = "pgcron_previous"
"""What the body of a destination with `previous` may name."""

RESULTS_PLACEHOLDER: Final = "pgcron_results"
"""What the body of a destination with `results` may name."""

EVERYTHING: Final[tuple[Network, ...]] = tuple(map(ipaddress.ip_network, ("0.0.0.0/0", "::/0")))
# Written for each run by pgcron_ha, or for each connection by the HTTP client.
_OWN_HEADERS = {
    *("accept-encoding", "authorization", "connection", "content-length", "host"),
    *("idempotency-key", "te", "traceparent", "transfer-encoding", "upgrade"),
}
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_IN_THE_CLEAR = "is not sent in the clear: use https, or allow_private"


@dataclass(frozen=True, slots=True)
class HttpAuthorization:
    """How a request authenticates: by `secret`, as a bearer token, a password or a header."""

    scheme: Literal["bearer", "basic", "header"]
    secret: SecretReference
    user: str = ""
    header: str = ""


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """The value that a JSON answer must have at a path; numbers in it are indexes of lists."""

    path: tuple[str, ...]
    value: str | int | float | bool


def _url(raw: object) -> str:
    """A plain URL that leaves no part of the place to the run."""
    if not isinstance(raw, str) or not raw:
        raise ValueError("a URL such as https://example.com/orders/{order}")
    try:
        parts = urlsplit(raw)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        raise Refused(f"is no URL: {error}") from None
    if not raw.startswith(("http://", "https://")) or not host:
        raise Refused("expected http://HOST… or https://HOST…")
    if "{" in parts.netloc:
        raise Refused("scheme, host and port can't come from a run: no placeholder there")
    if "@" in parts.netloc:
        raise Refused("user and password have no place in it: use auth")
    if "#" in raw or port == 0:
        raise Refused("has a fragment or the port 0")
    if len(raw) > MAX_URL_CHARACTERS or not re.fullmatch(r"[\x21-\x7e]*", raw):
        raise Refused(f"expected at most {MAX_URL_CHARACTERS} ASCII characters, no blanks")
    if re.search("[{}]", PLACEHOLDER.sub("", raw)):
        raise Refused("braces are only for the names of placeholders")
    return raw


def _headers(raw: object) -> dict[str, str]:
    if not isinstance(raw, dict):
        raise Refused('expected a table such as { Accept = "application/json" }')
    for name, value in raw.items():
        own = name.lower() in _OWN_HEADERS or name.lower().startswith("pgcron-")
        if not _HEADER.fullmatch(name) or own:
            raise Refused("is no header, or one that is not set here", name)
        if not isinstance(value, str) or not re.fullmatch(r"[\x20-\x7e]{0,4000}", value):
            raise Refused("expected a string of printable ASCII", name)
    return raw


def _body(raw: object) -> Any:
    if raw is True or not isinstance(raw, str | dict | list | bool):
        raise ValueError("a string, a table or list that becomes JSON, or false")
    try:
        json.dumps(raw, allow_nan=False)
    except (TypeError, ValueError):
        raise Refused("JSON has no dates, times, infinities and NaN") from None
    return raw


def _authorization(raw: object) -> HttpAuthorization:
    needed = {"bearer": set(), "basic": {"user"}, "header": {"header"}}
    scheme = raw.get("scheme") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(scheme, str) or scheme not in needed:
        raise Refused('expected a table such as { scheme = "bearer", secret = "env:KEY" }')
    if raw.keys() != {"scheme", "secret", *needed[scheme]}:
        keys = ", ".join(["scheme", "secret", *needed[scheme]])
        raise Refused(f"the keys of this scheme are {keys}")
    user, header = raw.get("user", ""), raw.get("header", "X")
    if not isinstance(user, str) or ":" in user or not user.isprintable():
        raise Refused("expected a name without a colon", "user")
    fits = isinstance(header, str) and _HEADER.fullmatch(header) is not None
    if not fits or header.lower() in _OWN_HEADERS:
        raise Refused("expected the name of a header of the service's own", "header")
    try:
        secret = parse_secret_reference(raw["secret"])
    except Refused as error:
        raise Refused(str(error), "secret") from None
    return HttpAuthorization(scheme, secret, user, header)  # type: ignore[arg-type]


def _statuses(raw: object) -> Statuses:
    found: list[range] = []
    for item in raw if isinstance(raw, list) else [None]:
        whole = re.fullmatch(r"([1-5])xx", item) if isinstance(item, str) else None
        if whole:
            found.append(range(int(whole[1]) * 100, int(whole[1]) * 100 + 100))
        elif isinstance(item, int) and not isinstance(item, bool) and 200 <= item < 600:
            found.append(range(item, item + 1))
        else:
            raise ValueError('a list of statuses such as [200, 404, "5xx"]')
    return tuple(found)


# May succeed later: too early, too many requests, a time-out, an error of the server.
DEFAULT_RETRY: Final = _statuses([408, 425, 429, "5xx"])


def _check(raw: object) -> AnswerCheck:
    path, value = (raw.get("path"), raw.get("value")) if isinstance(raw, dict) else (None, None)
    is_path = isinstance(path, str) and 0 < len(path) <= 200
    if not is_path or not isinstance(value, str | int | float) or len(raw) != 2:  # type: ignore[arg-type]
        raise ValueError('a table such as { path = "order.state", value = "ok" }')
    return AnswerCheck(tuple(str(path).split(".")), value)


def _networks(raw: object) -> tuple[Network, ...]:
    if isinstance(raw, bool):
        return EVERYTHING if raw else ()
    try:
        return tuple(ipaddress.ip_network(each) for each in texts(raw))
    except ValueError as error:
        raise ValueError(f'true or networks such as "10.0.0.0/8": {error}') from None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpDestination(Template):
    """One service. ``{name}`` in `url` and `body` is replaced by an arg of the run, whose text must
    match ``placeholders[name]`` from end to end.

    `body` None: the run's args as JSON where the method has a body; False: none; a text; or what
    becomes JSON. `timeout` (the whole run), `request_timeout` (one exchange) and `poll` (the
    pause between two looks at work that the service accepted) are seconds. `completion` is how a
    run ends that the service answers with 202: by that ``answer``, by polling the service
    (``poll``), or by a ``callback`` of the service; None: as `poll` says. `allow_private` are
    private networks that it may connect to. With `previous` the request contains how the schedule's
    previous run ended, with `results` the results of the steps that a step of a workflow comes
    after.
    """

    url: Annotated[str, _url]
    placeholders: Annotated[Mapping[str, str], patterns_by_name] = field(default_factory=dict)
    method: Annotated[str, choice(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))] = "POST"
    headers: Annotated[Mapping[str, str], _headers] = field(default_factory=dict)
    body: Annotated[Any, _body] = None
    auth: Annotated[HttpAuthorization | None, _authorization] = None
    request_timeout: Annotated[float, TIME_LIMIT] = 30.0
    expect: Annotated[Statuses, _statuses] = (range(200, 300),)
    retry: Annotated[Statuses, _statuses] = DEFAULT_RETRY
    discard: Annotated[Statuses, _statuses] = ()
    check: Annotated[AnswerCheck | None, _check] = None
    poll: Annotated[float | None, duration("1ms", "1h")] = None
    completion: Annotated[str | None, choice(("answer", "poll", "callback"))] = None
    connections: Annotated[int, integer(1, 1_000)] = 10
    allow_private: Annotated[tuple[Network, ...], _networks] = ()
    ca_file: Annotated[str | None, absolute_path] = None
    previous: Annotated[bool, flag] = False
    results: Annotated[bool, flag] = False

    @property
    def is_in_the_clear(self) -> bool:
        """Whether anybody on the way can read what is sent: no secret is."""
        return self.url.startswith("http:") and not self.allow_private

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Names that are not declared or reserved, and secrets that would be sent unencrypted."""
        is_called_back = self.completion == "callback"
        if self.completion == "poll" and self.poll is None:
            yield "completion", "'poll' needs poll, the pause between two questions"
        if self.completion in ("answer", "callback") and self.poll is not None:
            yield "completion", f"'{self.completion}' does not go with poll"
        made = {"callback_url", "callback_token"} if is_called_back else set()
        made |= {PREVIOUS_PLACEHOLDER} if self.previous else set()
        made |= {RESULTS_PLACEHOLDER} if self.results else set()
        for name in sorted(made & self.placeholders.keys()):
            yield f"placeholders.{name}", "is made for each run, and not the run's arg"
        in_body = {name for text in _leaves(self.body) for name in _names_in(text)}
        for key, used in (("url", _names_in(self.url)), ("body", in_body - made)):
            for name in sorted(used - self.placeholders.keys()):
                yield key, f"'{{{name}}}' is not declared in placeholders"
        if self.is_in_the_clear and self.auth is not None:
            yield "auth", f"a secret {_IN_THE_CLEAR}"
        if self.is_in_the_clear and is_called_back:
            yield "completion", f"a token {_IN_THE_CLEAR}"
        if self.method == "HEAD" and self.check is not None:
            yield "check", "an answer to HEAD has no body"


def _leaves(body: Any) -> Iterator[Any]:
    """The values of a body, at every level of nesting."""
    if isinstance(body, dict | list):
        for each in body.values() if isinstance(body, dict) else body:
            yield from _leaves(each)
    else:
        yield body


def _names_in(text: Any) -> set[str]:
    return set(PLACEHOLDER.findall(text)) if isinstance(text, str) else set()
