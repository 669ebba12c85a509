"""From a destination and a run to the request that is sent."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit
from uuid import UUID

from pgcron_ha.config.capability_table import PLACEHOLDER
from pgcron_ha.config.http_destinations import (
    PREVIOUS_PLACEHOLDER,
    RESULTS_PLACEHOLDER,
    HttpAuthorization,
    HttpDestination,
)
from pgcron_ha.errors import InvalidInput
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.masking import Masker, remember_secret
from pgcron_ha.executors.contract.placeholders import placeholder_texts
from pgcron_ha.executors.contract.previous import as_text, facts_of, run_facts
from pgcron_ha.model.json_values import compact

MAX_URL_CHARACTERS: Final = 8_000
"""What servers commonly take in one line."""

_INSTEAD = "leave body out of the destination's table: then the args are sent as JSON"
_OF_HEADERS = "!#$&'()*+,/:;<=>?@[]^_`{|}~-."


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request. ``headers`` have no host and no length: the client writes them."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | None


def render_request(
    destination: HttpDestination, context: Context, callback: Mapping[str, str] | None = None
) -> HttpRequest:
    """The request of a run; ``callback`` is where the service calls back (``callback_url``), and
    the token that it sends with it (``callback_token``). The context masks the secrets in it: a
    service may repeat them. Raises `ConfigError` for a secret that can't be read.

    Raises `InvalidInput` for an arg nothing is made of, a placeholder without arg, a value that is
    no scalar or does not match its pattern, and a value that would change the path's segments.
    """
    args = context.args
    sends_args = destination.body is None and destination.method in ("POST", "PUT", "PATCH")
    texts = placeholder_texts(destination.placeholders, context, _INSTEAD, sends_args)
    headers = {"User-Agent": "pgcron-ha", **run_headers(context)}
    if destination.is_in_the_clear:
        del headers["Pgcron-Token"]
    headers |= _headers("Pgcron", callback or {})
    reported: dict[str, Any] = {}
    if destination.previous:
        reported[PREVIOUS_PLACEHOLDER] = context._previous_found
        headers |= _headers("Pgcron-Previous", facts_of(context._previous_found))
    if destination.results:
        reported[RESULTS_PLACEHOLDER] = dict(context.results)
    made = {**(callback or {}), **reported}
    # So that the same header is the same key, however it was written.
    headers |= {name.title(): value for name, value in destination.headers.items()}
    content: bytes | None = None
    if sends_args:
        headers.setdefault("Content-Type", "application/json")
        content = compact({**args, **reported}).encode()
    elif isinstance(destination.body, str):
        headers.setdefault("Content-Type", "text/plain; charset=utf-8")
        content = _text(destination.body, {**texts, **_texts(made)}, headers["Content-Type"])
    elif destination.body not in (None, False):
        headers.setdefault("Content-Type", "application/json")
        filled = _filled(destination.body, {**texts, **_texts(made)}, {**args, **made})
        content = compact(filled).encode()
    secrets = [callback["callback_token"]] if callback else []
    if destination.auth is not None:
        secret = destination.auth.secret.read()
        remember_secret(secret)
        name, value = authorization_header(destination.auth, secret)
        headers[name] = value
        secrets += [secret, value.rpartition(" ")[2]]
    context._masker = Masker(secrets)
    return HttpRequest(destination.method, _url(destination.url, texts), headers, content)


def run_headers(context: Context) -> dict[str, str]:
    """Headers that identify the run, so that the service can refuse a stale or a second one."""
    headers = _headers("Pgcron", run_facts(context))
    # W3C Trace Context: the trace is the run (its uuid), the parent span the attempt.
    run = UUID(str(context.run_uuid))
    span = hashlib.sha256(run.bytes + str(context.attempt).encode()).hexdigest()[:16]
    return {
        "Accept-Encoding": "identity",
        "Idempotency-Key": headers.pop("Pgcron-Idempotency-Key"),
        **headers,
        "traceparent": f"00-{run.hex}-{span}-01",
    }


def _headers(prefix: str, facts: Mapping[str, str | int | None]) -> dict[str, str]:
    """``run_id`` is called Run. A name may have any character; what no header may have is
    percent-encoded.
    """
    texts = {name: quote(as_text(each), safe=_OF_HEADERS) for name, each in facts.items()}
    words = {name: name.removesuffix("_id").replace("_", "-").title() for name in texts}
    return {f"{prefix}-{words[name]}": each for name, each in texts.items()}


def authorization_header(auth: HttpAuthorization, secret: str) -> tuple[str, str]:
    """Name and value of the header that authorizes a request."""
    if auth.scheme == "header":
        return auth.header, secret
    if auth.scheme == "bearer":
        return "Authorization", f"Bearer {secret}"
    pair = base64.b64encode(f"{auth.user}:{secret}".encode()).decode()
    return "Authorization", f"Basic {pair}"


def _url(url: str, texts: Mapping[str, str]) -> str:
    filled = PLACEHOLDER.sub(lambda found: quote(texts[found[1]], safe=""), url)
    for segment in urlsplit(filled).path.split("/"):
        if unquote(segment) in (".", ".."):
            raise InvalidInput(
                f"the path of {filled[:200]!r} has the segment {segment!r}",
                "a value must not choose another path than that of the destination",
                "give another value",
            )
    if len(filled) > MAX_URL_CHARACTERS:
        raise InvalidInput(
            f"the URL has {len(filled)} characters",
            f"it may have {MAX_URL_CHARACTERS}",
            "send long values in the body",
        )
    return filled


def _texts(made: Mapping[str, Any]) -> dict[str, str]:
    return {name: each if isinstance(each, str) else compact(each) for name, each in made.items()}


def _text(body: str, texts: Mapping[str, str], content_type: str) -> bytes:
    """Values are escaped as the kind of text demands."""

    def escaped(found: re.Match[str]) -> str:
        text = texts[found[1]]
        if content_type.startswith("application/x-www-form-urlencoded"):
            return quote(text, safe="")
        if "json" in content_type:
            return json.dumps(text, ensure_ascii=False)[1:-1]
        return text

    return PLACEHOLDER.sub(escaped, body).encode()


def _filled(body: Any, texts: Mapping[str, str], args: Mapping[str, Any]) -> Any:
    """A text that is one placeholder and nothing else becomes the arg itself, a number a number."""
    if isinstance(body, dict):
        return {key: _filled(value, texts, args) for key, value in body.items()}
    if isinstance(body, list):
        return [_filled(value, texts, args) for value in body]
    if not isinstance(body, str):
        return body
    whole = PLACEHOLDER.fullmatch(body)
    if whole:
        return args[whole[1]]
    return PLACEHOLDER.sub(lambda found: texts[found[1]], body)
