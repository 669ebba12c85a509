"""How much each benchmark does: in full, quickly, or just enough to see that it works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Sizes:
    """Counts, and seconds where the name says so."""

    drain_runs: int = 50_000
    drain_rounds: int = 3
    delivery_runs: int = 10_000
    delivery_rounds: int = 3
    enqueue_blocks: int = 30
    enqueue_block: int = 100
    bulk_blocks: int = 10
    bulk_rows: int = 5_000
    pickups: int = 300
    backlog_keys: int = 1_000
    full_keys: int = 10_000
    idle_seconds: float = 30
    second_schedules: int = 500
    second_period: int = 10
    second_ticks: int = 6
    minute_schedules: int = 10_000
    minute_period: int = 60
    minute_ticks: int = 2
    every_second_schedules: int = 1_000
    every_second_ticks: int = 20
    hourly_schedules: int = 1_000_000
    hourly_seconds: float = 60
    # Cursors come due when half of the horizon is used up: before that nothing is materialized.
    hourly_settle_seconds: float = 32
    spread_schedules: int = 100_000
    spread_seconds: float = 60
    spread_settle_seconds: float = 40
    edit_runs: int = 1_000
    edit_rounds: int = 15
    held_runs: int = 200_000
    held_rounds: int = 3
    backlog_rows: int = 1_000_000
    backlog_runs: int = 50_000
    backlog_rounds: int = 3
    feature_runs: int = 30_000
    feature_rounds: int = 3
    limit_runs: int = 30_000
    limit_rounds: int = 3
    limit_paused_rows: int = 1_000_000
    fire_time_repeats: int = 3
    crash_kills: int = 5
    first_runs: int = 3
    retention_rows: int = 1_000_000
    retention_seconds: float = 20
    page_history: int = 1_000_000
    page_schedules: int = 2_000
    page_waiting: int = 50_000
    page_samples: int = 40
    page_viewers: int = 50
    page_viewer_seconds: float = 30
    workflow_wide: int = 10_000
    workflow_layer: int = 316
    crash_lease: str = "5s"


FULL: Final = Sizes()

QUICK: Final = Sizes(
    drain_runs=20_000,
    drain_rounds=2,
    delivery_runs=3_000,
    delivery_rounds=2,
    enqueue_blocks=10,
    bulk_blocks=4,
    bulk_rows=2_000,
    pickups=80,
    full_keys=2_000,
    idle_seconds=10,
    second_ticks=2,
    minute_schedules=5_000,
    minute_period=20,
    every_second_ticks=8,
    hourly_schedules=50_000,
    hourly_seconds=20,
    spread_schedules=30_000,
    spread_seconds=20,
    edit_rounds=5,
    held_runs=60_000,
    backlog_rows=100_000,
    backlog_runs=20_000,
    backlog_rounds=2,
    feature_runs=10_000,
    feature_rounds=2,
    limit_runs=10_000,
    limit_rounds=2,
    limit_paused_rows=100_000,
    workflow_wide=2_000,
    workflow_layer=100,
    crash_kills=1,
    first_runs=1,
    retention_rows=100_000,
    retention_seconds=3,
    page_history=200_000,
    page_waiting=10_000,
    page_samples=10,
    page_viewer_seconds=12,
)

TINY: Final = Sizes(
    drain_runs=300,
    drain_rounds=1,
    delivery_runs=100,
    delivery_rounds=1,
    enqueue_blocks=1,
    enqueue_block=5,
    bulk_blocks=1,
    bulk_rows=20,
    pickups=3,
    backlog_keys=10,
    full_keys=20,
    idle_seconds=0.5,
    second_schedules=5,
    second_period=1,
    second_ticks=1,
    minute_schedules=5,
    minute_period=1,
    minute_ticks=1,
    every_second_schedules=5,
    every_second_ticks=1,
    hourly_schedules=50,
    hourly_seconds=1,
    hourly_settle_seconds=0,
    spread_schedules=60,
    spread_seconds=1,
    spread_settle_seconds=0,
    edit_runs=20,
    edit_rounds=1,
    held_runs=300,
    backlog_rows=300,
    backlog_runs=300,
    backlog_rounds=1,
    feature_runs=200,
    workflow_wide=200,
    workflow_layer=8,
    feature_rounds=1,
    limit_runs=300,
    limit_rounds=1,
    limit_paused_rows=300,
    fire_time_repeats=1,
    crash_kills=1,
    crash_lease="1s",
    first_runs=1,
    retention_rows=2_000,
    retention_seconds=0.2,
    page_history=2_000,
    page_schedules=120,
    page_waiting=200,
    page_samples=1,
    page_viewers=3,
    page_viewer_seconds=1,
)
