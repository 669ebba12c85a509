"""What people do to queues and keys: those of ``sql/functions.sql``."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.driver.calls import Call

pause_queue: Final = Call[None]("pause_queue", "name", note=None)
"""Nobody claims from the queue until it is resumed; what runs goes on."""

resume_queue: Final = Call[None]("resume_queue", "name")
"""The queue is claimed from again; nothing happens to one that was not paused."""

set_queue: Final = Call[None]("set_queue", "name", "max_running")
"""Limits how many of the queue's runs execute at once on all nodes together, and how many (`rate`)
start in any span of `per`; None is no limit.
"""

set_concurrency: Final = Call[None]("set_concurrency", "concurrency_key", "slots")
"""Limits how many runs of the key execute at once, and how many (`rate`) start in any span of
`per`; None is no limit. A name that ends with ``*`` is for all keys with that prefix.
"""

delete_concurrency: Final = Call[None]("delete_concurrency", "concurrency_key")
"""What was set for this name holds no more."""
