"""Passwords that change: the configuration says where the current one is.

Clouds hand out tokens that last minutes (IAM), which a command prints. What it printed is used for
a minute (`SecretReference.read`), so that a node that reconnects everything at once runs it once.
When the server has refused a password it is read anew, and then again only after a pause that all
connections share.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Final

from pgcron_ha.config.secret_references import SecretReference
from pgcron_ha.errors import ConfigError, DatabaseUnavailable

PAUSE_SECONDS: Final = 5.0
"""Between two runs of which the first was no use: clouds count them, and throttle."""


class ChangingPassword:
    """Reads it where a reference says; to be called from any thread and event loop."""

    def __init__(self, reference: SecretReference) -> None:
        self.reference = reference
        self._begin_reader()
        self._paused_until = 0.0
        self._error: ConfigError | None = None

    async def __call__(self, refused: str | None = None) -> str:
        """The current password; `refused` is the one that the server has just refused, and comes
        back when it is too early for another. Raises DatabaseUnavailable.
        """
        loop = asyncio.get_running_loop()
        if self._process != os.getpid():  # after a fork, the thread is the parent's
            self._begin_reader()
        try:
            return await loop.run_in_executor(self._reader, self._read, refused)
        except ConfigError as error:
            raise DatabaseUnavailable(
                f"the password of the database can't be read: {error.message}",
                error.detail,
                f"{error.hint} The setting is password_from.",
            ) from None

    def _begin_reader(self) -> None:
        """One at a time. A program may take longer than its caller waits: it goes on, and the next
        caller finds what it has printed.
        """
        self._process = os.getpid()
        self._reader = ThreadPoolExecutor(1, "pgcron_ha password")

    def _read(self, refused: str | None) -> str:
        is_paused = monotonic() < self._paused_until
        if is_paused and self._error is not None:
            raise self._error
        try:
            password = self.reference.read()
            if password == refused and not is_paused:
                self._paused_until = monotonic() + PAUSE_SECONDS
                password = self.reference.read(age=0)
        except ConfigError as error:
            self._error, self._paused_until = error, monotonic() + PAUSE_SECONDS
            raise
        self._error = None
        return password


_password: ChangingPassword | None = None


def use_password(reference: SecretReference | None) -> None:
    """From now on this process reads passwords that a DSN does not have here."""
    global _password
    if reference != (None if _password is None else _password.reference):
        _password = None if reference is None else ChangingPassword(reference)


def password_in_use() -> ChangingPassword | None:
    """That of this process."""
    return _password
