"""Lets clients in to pages without login: the printed address works once, and the cookie that it
gives is for all clients of the test.
"""

from __future__ import annotations

import re

import httpx

from tests.product.web import LocalKey

_known: dict[str, dict[str, str]] = {}


def entered(output: str) -> str | None:
    """The address of a server by what it has printed so far, whose key is used now; None: it does
    not serve yet.
    """
    serving = re.search(r"serving (https?://\S+)( with login)?\n", output)
    opening = re.search(r"open +(http://\S+)", output)
    if serving is None:
        return None
    if serving[2]:
        return serving[1]
    if opening is None:
        return None
    answer = httpx.get(opening[1])
    assert answer.status_code == httpx.codes.SEE_OTHER, answer.text
    _known[_origin(serving[1])] = dict(answer.cookies)
    return serving[1]


def know(url: str, key: LocalKey) -> None:
    """Of a server in this process."""
    _known[_origin(url)] = {f"pgcron_{httpx.URL(url).port or 80}": key.cookie}


def cookies(url: str) -> dict[str, str]:
    """What lets a client in to the server at this address; nothing for one with a login."""
    return _known.get(_origin(url), {})


def _origin(url: str) -> str:
    parts = httpx.URL(url)
    return f"{parts.scheme}://{parts.host}:{parts.port or 80}"
