"""What people and programs prove themselves with: passwords, hashed by argon2id, and tokens,
``pgc_ID_SECRET``.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
from typing import TYPE_CHECKING, Final, NamedTuple

from pgcron_ha.errors import InvalidInput, missing_package

if TYPE_CHECKING:
    from argon2 import PasswordHasher

LEAST_CHARACTERS: Final = 12
MOST_CHARACTERS: Final = 1000

_ID_LETTERS: Final = string.ascii_lowercase + string.digits
_TOKEN: Final = re.compile(r"pgc_([a-z0-9]{8})_([A-Za-z0-9_-]{43})")


def hasher() -> PasswordHasher:
    """A tenth of a second or so, and 32 MiB, for each password. ConfigError without the extra."""
    try:
        from argon2 import PasswordHasher
    except ImportError:
        raise missing_package("passwords", "argon2-cffi", "auth") from None
    return PasswordHasher(time_cost=3, memory_cost=32 * 1024, parallelism=1)


def hashed_password(password: str) -> str:
    """InvalidInput for one that is too short, or absurdly long."""
    if not LEAST_CHARACTERS <= len(password) <= MOST_CHARACTERS:
        raise InvalidInput(
            f"the password has {len(password)} characters",
            f"A password has at least {LEAST_CHARACTERS} characters, of any kind.",
            "A few words that do not belong together are easy to remember.",
        )
    return hasher().hash(password)


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
