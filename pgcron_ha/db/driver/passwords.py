"""Passwords that change: a command of the node's configuration prints the current one.

Clouds hand out tokens that last minutes (IAM). What the command prints is used for a minute, so
that a node that reconnects everything at once runs it once or a few times. When the server has
refused a password the command runs anew, and then again only after a pause that all connections
share.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

from pgcron_ha.errors import DatabaseUnavailable

FRESH_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 5.0
"""Between two runs of which the first was no use: clouds count them, and throttle."""

TIMEOUT_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.02
MOST_BYTES: Final = 64 * 1024
"""Tokens have some kilobytes."""

_SHOWN: Final = 300


class PasswordCommand:
    """Runs a program; to be called from any thread and event loop."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        self.argv = argv
        self._known: tuple[float, str] | None = None
        self._asking_until = 0.0
        self._paused_until = 0.0
        self._error: DatabaseUnavailable | None = None

    async def __call__(self, refused: str | None = None) -> str:
        """The current password; `refused` is the one that the server has just refused, and comes
        back when it is too early for another. Raises DatabaseUnavailable with what the
        command printed instead.
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
            process = await asyncio.create_subprocess_exec(
                *self.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise self._failed(f"it can't be started: {error.strerror}") from None
        try:
            output, complaint = await asyncio.wait_for(process.communicate(), TIMEOUT_SECONDS)
        except TimeoutError:
            raise self._failed(f"it did not end within {TIMEOUT_SECONDS:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            said = complaint[-_SHOWN:].decode("utf-8", "replace").strip()
            raise self._failed(f"it ended with {process.returncode}: {said}")
        password = output[: MOST_BYTES + 1].decode("utf-8", "replace").rstrip("\r\n")
        if not password or len(password) > MOST_BYTES or not password.isprintable():
            raise self._failed("it printed no single line of text")  # never what it printed
        return password

    def _failed(self, why: str) -> DatabaseUnavailable:
        return DatabaseUnavailable(
            f"the password command {self.argv[0]!r} gave none",
            why,
            "Run it by hand as the node's user; the setting is password_command.",
        )


_command: PasswordCommand | None = None


def use_command(argv: tuple[str, ...]) -> None:
    """From now on this process runs `argv` for passwords that a DSN does not have; () for none."""
    global _command
    if argv != (() if _command is None else _command.argv):
        _command = PasswordCommand(argv) if argv else None


def command_in_use() -> PasswordCommand | None:
    """The command of this process."""
    return _command
