"""Secrets in error messages and tracebacks, masked before they are cut, stored or shown.

What the configuration knows to be a secret is masked wherever it stands (`remember_secret`), and
what is written as one: ``password=…``, ``postgresql://name:…@host``, ``Bearer …``, private keys.
"""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import parse_qsl, unquote

from pgcron_ha.db.dsn import split_dsn

MASK: Final = "***"

# A shorter word stands in many texts that have nothing to do with it.
SHORTEST_SECRET: Final = 4
MOST_SECRETS: Final = 1000
_LONGEST_SECRET: Final = 4096

# Beyond this from a cut nothing of a secret that the cut goes through is left.
_MARGIN: Final = _LONGEST_SECRET

_NAMES: Final = (
    r"pass(?:word|wd|phrase)?|pwd|secret|api[_-]?key|access[_-]?key|secret[_-]?key|"
    r"private[_-]?key|credentials?|cookie|session[_-]?id"
)
_VALUE: Final = (
    r"""(?:"(?:[^"\\\n]|\\.){1,4096}"|'(?:[^'\\\n]|\\.){1,4096}'|["']?[^\s"'&;,)\]}]{1,4096})"""
)
_PATTERNS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), replacement)
    for pattern, replacement in (
        # A block with a key, also one that is cut off.
        (r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", MASK),
        # scheme://name:password@host
        (r"(://[^\s:/@]{0,100}:)[^\s/@]{1,500}@", rf"\1{MASK}@"),
        # Headers, and the word wherever it stands.
        (
            rf"(authorization[\"']?\s{{0,3}}[=:]\s{{0,3}}[\"']?)(?:\w{{1,20}}\s{{1,3}})?{_VALUE}",
            rf"\1{MASK}",
        ),
        (r"\b(bearer\s{1,3})[A-Za-z0-9._~+/=-]{8,4096}", rf"\1{MASK}"),
        # name=value, name: value, "name": "value"; also with a word before it: DB_PASSWORD=…
        (rf"((?:{_NAMES})[0-9]{{0,3}}[\"']?\s{{0,3}}(?:=>|[=:])\s{{0,3}}){_VALUE}", rf"\1{MASK}"),
        # "unexpected token: x" is no secret.
        (rf"(token(?:[\"']\s{{0,3}}:|\s{{0,3}}=)\s{{0,3}}){_VALUE}", rf"\1{MASK}"),
        # Keys that say by their beginning what they are.
        (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_\w{20,255}|\bxox[abprs]-[\w-]{10,255}", MASK),
    )
)

_secrets: set[str] = set()
_known: re.Pattern[str] | None = None


def remember_secret(value: str | None) -> None:
    """From now on this text is masked wherever it stands; one that is too short to be one is not.

    Raises nothing: beyond `MOST_SECRETS` no more are remembered.
    """
    global _known
    if value is None or len(value) < SHORTEST_SECRET or len(_secrets) >= MOST_SECRETS:
        return
    _secrets.add(value[:_LONGEST_SECRET])
    longest_first = sorted(_secrets, key=len, reverse=True)
    _known = re.compile("|".join(map(re.escape, longest_first)))


def remember_password(dsn: str) -> None:
    """The password of a connection string (in its address, or as ``password=…``), or that of the
    environment (``PGPASSWORD``), is a secret from now on.

    One that is also the name of the user or the database is none.
    """
    parts = split_dsn(dsn) if "://" in dsn else split_dsn("")
    written = re.findall(r"(?:^|\s)(user|dbname|password)\s*=\s*('(?:[^'\\]|\\.)*'|\S+)", dsn)
    words = {name: re.sub(r"\\(.)", r"\1", value.strip("'")) for name, value in written}
    words |= parse_qsl(parts.query)
    names = {parts.username, parts.path.strip("/"), words.get("user"), words.get("dbname")}
    raw, given = parts.password, os.environ.get("PGPASSWORD")
    for secret in (raw, None if raw is None else unquote(raw), words.get("password"), given):
        if secret not in names:
            remember_secret(secret)


def mask(text: str, limit: int | None = None) -> str:
    """The text without its secrets.

    With a limit only as much of its beginning and end as will be kept of so many characters, and
    what a secret across the cut may have: the middle of a huge text is not searched.
    """
    if limit is not None and len(text) > limit + 4 * _MARGIN:
        part = limit // 2 + _MARGIN
        # What stands at the cuts may be a part of a secret that is not known by it.
        head, tail = mask(text[:part])[:-_MARGIN], mask(text[-part:])[_MARGIN:]
        return f"{head}{' ' * (len(text) - len(head) - len(tail))}{tail}"
    if _known is not None:
        text = _known.sub(MASK, text)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
