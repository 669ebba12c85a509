"""What a schedule in code may say."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypedDict

from pgcron_ha.client.requirements import Requirements
from pgcron_ha.client.retry_policy import RetryPolicy


class Policies(TypedDict, total=False):
    """What a schedule in code may say beside its spec; what it leaves out has the default.

    Durations are timedelta or seconds.
    """

    args: Mapping[str, Any] | None
    timezone: str
    dst: str
    queue: str
    priority: int
    overlap: str
    catchup: str
    catchup_window: timedelta | float | str
    start_deadline: timedelta | float | str | None
    timeout: timedelta | float | str
    max_attempts: int | None
    retry_base: timedelta | float | str
    retry_cap: timedelta | float | str
    retry: RetryPolicy | None
    delivery: str
    lane: str | None
    requires: Requirements | None
    give_up_after: timedelta | float | str | None
    silence_timeout: timedelta | float | str | None
    weight: int | None
    max_running: int | None
    max_queued: int | None
    queue_drops: str | None
    after_pause: str
    jitter: timedelta | float | str | None
    max_runs: int | None
    pause_after_failures: int | None
    probe_after: timedelta | float | str | None
    depends_on_previous: bool
