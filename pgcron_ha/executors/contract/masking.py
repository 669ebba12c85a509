"""Masks secrets in the output and errors of runs before they are cut, stored or shown.

Secrets of the configuration (`remember_secret`), and in what a run writes its own secret args, are
masked everywhere, also in results, and in their encoded forms. Text that looks like a secret is
masked in errors, lines and notes:
``password=…``, ``postgresql://name:…@host``, ``Bearer …``, private keys.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote, quote_plus

from pgcron_ha.db.driver.dsn import password_of, without_password
from pgcron_ha.model.json_values import compact

MASK: Final = "***"

# A shorter word occurs in many unrelated texts.
SHORTEST_SECRET: Final = 4
MOST_SECRETS: Final = 1000
_LONGEST_SECRET: Final = 4096
_LONG_LINE: Final = 16  # of a secret with several lines

# Beyond this from a cut nothing of a secret that the cut goes through is left.
MARGIN: Final = _LONGEST_SECRET

_NAMES: Final = (
    r"pass(?:word|wd|phrase)?|pwd|secret|api[_-]?key|access[_-]?key|secret[_-]?key|"
    r"private[_-]?key|credentials?|cookie|session[_-]?id"
)
_VALUE: Final = (
    r"""(?:"(?:[^"\\\n]|\\.){1,4096}"|'(?:[^'\\\n]|\\.){1,4096}'|["']?[^\s"'&;,)\]}]{1,4096})"""
)
# By words of which each match contains one; the first group of a match is no secret.
_SHAPES: Final = {
    # A block with a key, also one that is cut off.
    "-----begin": r"()-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)",
    # scheme://name:password@host
    "://": r"(://[^\s:/@]{0,100}:)[^\s/@]{1,500}(?=@)",
    # Headers, and the word at any place.
    "authorization": (
        rf"(authorization[\"']?\s{{0,3}}[=:]\s{{0,3}}[\"']?)(?:\w{{1,20}}\s{{1,3}})?{_VALUE}"
    ),
    "bearer": r"\b(bearer\s{1,3})[A-Za-z0-9._~+/=-]{8,4096}",
    # name=value, name: value, "name": "value"; also with a word before it: DB_PASSWORD=…
    "pass pwd secret key credential cookie session": (
        rf"((?:{_NAMES})[0-9]{{0,3}}[\"']?\s{{0,3}}(?:=>|[=:])\s{{0,3}}){_VALUE}"
    ),
    # "unexpected token: x" is no secret.
    "token": rf"(token(?:[\"']\s{{0,3}}:|\s{{0,3}}=)\s{{0,3}}){_VALUE}",
    # Keys that say by their beginning what they are.
    "akia asia ghp_ gho_ ghu_ ghs_ ghr_ xox": (
        r"()\b(?:(?:AKIA|ASIA)[A-Z0-9]{16}\b|gh[pousr]_\w{20,255}|xox[abprs]-[\w-]{10,255})"
    ),
}
_PATTERNS: Final = [
    (words.split(), re.compile(shape, re.IGNORECASE | re.DOTALL))
    for words, shape in _SHAPES.items()
]


class Masker:
    """Knows some secrets, each in all of its forms. Mask first and cut afterwards: half a secret is
    one, too.
    """

    def __init__(self, secrets: Iterable[str], longest: int | None = None) -> None:
        """Of each form ``longest`` characters are looked for, or all."""
        forms = {form[:longest] for secret in secrets for form in forms_of(secret)}
        # The longest first, so that no part of one is left over.
        ordered = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def mask(self, text: str) -> str:
        """The text without them."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def mask_document(self, document: Any) -> Any:
        """The JSON document with its texts masked. Raises RecursionError for a deep one."""
        if self._pattern is None:
            return document
        if isinstance(document, dict):
            return {self.mask(k): self.mask_document(v) for k, v in document.items()}
        if isinstance(document, list):
            return [self.mask_document(each) for each in document]
        if isinstance(document, str):
            return self.mask(document)
        is_secret = document is not None and self.mask(written := str(document)) != written
        return MASK if is_secret else document


_secrets: set[str] = set()
_known = Masker(())
_is_child = False


def remember_secret(value: str | None) -> None:
    """Mask this text from now on, at any place and in each of its encoded forms. A text that is too
    short is not masked. In a text of several lines each long line is masked alone, too.

    Raises nothing: beyond `MOST_SECRETS` no more are remembered.
    """
    global _known
    is_full = len(_secrets) >= MOST_SECRETS
    if is_full or value is None or len(value) < SHORTEST_SECRET or value in _secrets:
        return
    _secrets.add(value)
    _known = Masker(_secrets, _LONGEST_SECRET)


def forms_of(secret: str) -> set[str]:
    """The text, and its forms in addresses, JSON and headers; none if it is too short."""
    if len(secret) < SHORTEST_SECRET:
        return set()
    encoded = secret.encode("utf-8", "surrogatepass")
    lines = secret.split("\n")
    return {
        secret,
        quote(encoded, safe=""),
        quote_plus(encoded),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        base64.b64encode(encoded).decode().rstrip("="),
        base64.urlsafe_b64encode(encoded).decode().rstrip("="),
        *(line for line in map(str.strip, lines) if len(lines) > 1 and len(line) >= _LONG_LINE),
    }


def leave_secrets_to_the_node() -> None:
    """For a process that has no keys: it gets its args decrypted, and a node encrypts its results,
    and masks and cuts its output, since the node knows more secrets. Texts are kept longer here by
    a margin, so that no secret is cut through.
    """
    global _is_child
    _is_child = True


def are_left_to_the_node() -> bool:
    """Whether a node decrypts, encrypts and masks what this process has."""
    return _is_child


def remember_password(dsn: str) -> None:
    """The password of a DSN, and that of the environment (``PGPASSWORD``), is a secret from now on.

    One that the DSN also has as a name (the user's, the database's) is none.
    """
    names = re.split(r"[/:@?&=,]+", without_password(dsn))
    for secret in (password_of(dsn), os.environ.get("PGPASSWORD")):
        if secret not in names:
            remember_secret(secret)


def mask(text: str, limit: int | None = None, own: Masker | None = None) -> str:
    """The text without its secrets; `own` knows those of the run that it comes from.

    With a limit (in characters) only the beginning and the end that will be kept are searched, with
    a margin for a secret across the cut: the middle of a huge text is not searched.
    """
    if limit is not None and len(text) > limit + 4 * MARGIN:
        part = limit // 2 + MARGIN
        # The text at a cut may be a part of a secret, which can't be recognized.
        head = mask(text[:part], own=own)[:-MARGIN]
        tail = mask(text[-part:], own=own)[MARGIN:]
        return f"{head}{' ' * (len(text) - len(head) - len(tail))}{tail}"
    text = _known.mask(text if own is None else own.mask(text))
    lowered = text.lower()
    for words, pattern in _PATTERNS:
        if any(word in lowered for word in words):
            text = pattern.sub(rf"\1{MASK}", text)
    return text


def mask_document(text: str, own: Masker | None = None) -> str:
    """The JSON text with known secrets masked in texts, names and numbers."""
    for masker in (_known, own):
        if masker is not None and masker.mask(text) != text:
            text = compact(masker.mask_document(json.loads(text)))
    return text


def masked_beginning(text: str, limit: int, own: Masker | None = None) -> str:
    """What may be kept of a text of which ``limit`` characters will be: no part of a secret."""
    if _is_child:
        return text[: room(limit)]
    if len(text) <= limit + MARGIN:
        return mask(text, own=own)
    return mask(text[: limit + MARGIN], own=own)[:-MARGIN]


def room(limit: int) -> int:
    """How much of a text to keep where ``limit`` will be: more where the node cuts it again."""
    return limit + MARGIN + 1 if _is_child else limit
