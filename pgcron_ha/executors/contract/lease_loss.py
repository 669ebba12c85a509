"""What becomes of a handler whose node can't renew its lease: ``on_lease_loss``."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, cast

from pgcron_ha.errors import ConfigError

LeaseLoss: TypeAlias = Literal["stop", "finish"]

STOP: Final = "stop"
"""It is asked to stop, then killed, before another node may begin its run."""

FINISH: Final = "finish"
"""It goes on. Its end is told when the database is back, and counts if the run is still this
node's; else it is stopped then. Another node may have begun the run meanwhile.
"""


def read_lease_loss(value: str) -> LeaseLoss:
    """From what `App.handler` was given. Raises `ConfigError`."""
    if value not in (STOP, FINISH):
        raise ConfigError(
            f"on_lease_loss is {value!r}",
            "A handler whose node can't reach the database stops, or finishes what it does.",
            "Write 'stop' or 'finish'.",
        )
    return cast(LeaseLoss, value)
