"""Tokens of programs: ``pgc_ID_SECRET``."""

from __future__ import annotations

import hashlib
import re
import secrets
import string
from typing import Final, NamedTuple

_ID_LETTERS: Final = string.ascii_lowercase + string.digits
_TOKEN: Final = re.compile(r"pgc_([a-z0-9]{8})_([A-Za-z0-9_-]{43})")


class Token(NamedTuple):
    """The id is known to everybody, the secret of 256 random bits to the program alone."""

    id: str
    secret: str

    def __str__(self) -> str:
        """As a program sends it: ``Authorization: Bearer pgc_…``."""
        return f"pgc_{self.id}_{self.secret}"

    @property
    def secret_hash(self) -> bytes:
        """What is kept of it."""
        return hashed(self.secret)


def new_token() -> Token:
    """One that nobody has."""
    number = "".join(secrets.choice(_ID_LETTERS) for _ in range(8))
    return Token(number, secrets.token_urlsafe(32))


def read_token(text: str) -> Token | None:
    """None for what is no token."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else Token(found[1], found[2])


def hashed(secret: str) -> bytes:
    """As the database keeps a secret of 256 random bits."""
    return hashlib.sha256(secret.encode()).digest()
