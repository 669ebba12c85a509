"""Passwords that change: the configuration says where the current one is.

Clouds hand out tokens that last minutes (IAM), which a command prints. What was read is used for a
minute, so that a node that reconnects everything at once runs the command once or a few times. When
the server has refused a password it is read anew, and then again only after a pause that all
connections share.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

from pgcron_ha.config.secret_references import (
    FRESH_SECONDS,
    TIMEOUT_SECONDS,
    SecretReference,
)
from pgcron_ha.errors import ConfigError, DatabaseUnavailable

PAUSE_SECONDS: Final = 5.0
"""Between two runs of which the first was no use: clouds count them, and throttle."""

_LOOK_SECONDS: Final = 0.02


class ChangingPassword:
    """Reads it where a reference says; to be called from any thread and event loop."""

    def __init__(self, reference: SecretReference) -> None:
        self.reference = reference
        self._known: tuple[float, str] | None = None
        self._asking_until = 0.0
        self._paused_until = 0.0
        self._error: DatabaseUnavailable | None = None

    async def __call__(self, refused: str | None = None) -> str:
        """The current password; `refused` is the one that the server has just refused, and comes
        back when it is too early for another. Raises DatabaseUnavailable.
        """
        while monotonic() < self._asking_until:  # noqa: ASYNC110 - it may be of another loop
            await asyncio.sleep(_LOOK_SECONDS)
        began = monotonic()
        known = self._known
        if known is not None and began - known[0] < FRESH_SECONDS and known[1] != refused:
            return known[1]
        if began < self._paused_until:
            if refused is not None:
                return refused
            if self._error is not None:
                raise DatabaseUnavailable(self._error.message, self._error.detail, self._error.hint)
        self._asking_until = began + TIMEOUT_SECONDS + 1
        try:
            password = await self._ask()
        except DatabaseUnavailable as error:
            self._error, self._paused_until = error, monotonic() + PAUSE_SECONDS
            raise
        finally:
            self._asking_until = 0.0
        if refused is not None:
            self._paused_until = monotonic() + PAUSE_SECONDS
        self._known, self._error = (began, password), None
        return password

    async def _ask(self) -> str:
        try:
            # A program may take its time.
            return await asyncio.to_thread(self.reference.read, age=0)
        except ConfigError as error:
            raise DatabaseUnavailable(
                f"the password of the database can't be read: {error.message}",
                error.detail,
                f"{error.hint} The setting is password_from.",
            ) from None


_password: ChangingPassword | None = None


def use_password(reference: SecretReference | None) -> None:
    """From now on this process reads passwords that a DSN does not have here."""
    global _password
    if reference != (None if _password is None else _password.reference):
        _password = None if reference is None else ChangingPassword(reference)


def password_in_use() -> ChangingPassword | None:
    """That of this process."""
    return _password
