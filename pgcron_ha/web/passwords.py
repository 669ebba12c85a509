"""Passwords that people type: few are compared at a time, outside the event loop."""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

from argon2.exceptions import Argon2Error, InvalidHashError

from pgcron_ha.credentials import MOST_CHARACTERS, hashed_password, hasher
from pgcron_ha.errors import Refused
from pgcron_ha.web.metrics import WebMetrics

AT_ONCE: Final = 4
"""Each takes a core and 32 MiB for a tenth of a second."""

MOST_WAITING: Final = 64


class Passwords:
    """Compares passwords for one application."""

    def __init__(self, metrics: WebMetrics) -> None:
        self._hasher = hasher()
        # Nobody's: what is typed for an unknown user is compared, too, so that it takes as long.
        self._nobody = self._hasher.hash(secrets.token_urlsafe(32))
        self._metrics = metrics
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def proof(self, known: str | None, typed: str) -> str | None:
        """The `known` hash (None: there is no such user) if what was typed, up to
        `MOST_CHARACTERS` of it, is its password; else None. Refused while too many wait.
        """
        if self._waiting >= MOST_WAITING:
            raise Refused(
                "too many logins at once",
                f"{MOST_WAITING} wait already for their password to be compared.",
                "Try again in some seconds.",
            )
        self._waiting += 1
        try:
            async with self._turns:
                self._metrics.password_checks.inc()
                compared = known or self._nobody, typed[:MOST_CHARACTERS]
                await asyncio.to_thread(self._hasher.verify, *compared)
        except (Argon2Error, InvalidHashError):
            return None
        finally:
            self._waiting -= 1
        return known

    async def hashed(self, new: str) -> str:
        """The hash of a new password. InvalidInput."""
        async with self._turns:
            return await asyncio.to_thread(hashed_password, new)
