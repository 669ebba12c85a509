"""The options of a schedule beside its name, its spec and its handler."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TypedDict


class SchedulePolicies(TypedDict, total=False):
    """What `put_schedule` may set beside name, spec and handler; None or absent: unchanged."""

    args: str | None
    timezone: str | None
    dst: str | None
    queue: str | None
    priority: int | None
    enabled: bool | None
    overlap: str | None
    catchup: str | None
    catchup_window: timedelta | None
    start_deadline: timedelta | None
    timeout: timedelta | None
    max_attempts: int | None
    retry_base: timedelta | None
    retry_cap: timedelta | None
    retry: str | None
    delivery: str | None
    concurrency_key: str | None
    requires: Sequence[str] | None
    weight: int | None
    managed_by: str | None
    give_up_after: timedelta | None
    silence_timeout: timedelta | None
    max_running: int | None
    max_queued: int | None
    queue_drops: str | None
    after_pause: str | None
    jitter: timedelta | None
    max_runs: int | None
    pause_after_failures: int | None
    probe_after: timedelta | None
    depends_on_previous: bool | None
