"""Passwords: what they must be, and their hashes by argon2id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgcron_ha.errors import ConfigError, InvalidInput

if TYPE_CHECKING:
    from argon2 import PasswordHasher

LEAST_CHARACTERS: Final = 12
MOST_CHARACTERS: Final = 1000


def hasher() -> PasswordHasher:
    """A tenth of a second or so, and 32 MiB, for each password. ConfigError without the extra."""
    try:
        from argon2 import PasswordHasher
    except ImportError:
        raise ConfigError(
            "passwords need the package argon2-cffi",
            "It is not installed.",
            'Install the extra: pip install "pgcron-ha[auth]".',
        ) from None
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
