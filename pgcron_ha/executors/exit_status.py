"""How a process ended, in words."""

from __future__ import annotations

import contextlib
import signal


def how_it_ended(status: int) -> str:
    """``exited with status 3``, ``killed by signal 9 (SIGKILL)`` for -9."""
    if status >= 0:
        return f"exited with status {status}"
    name = ""
    with contextlib.suppress(ValueError):  # a real-time signal has no name
        name = f" ({signal.Signals(-status).name})"
    return f"killed by signal {-status}{name}"
