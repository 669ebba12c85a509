"""Machine, versions and settings: what every set of figures begins with."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import asyncpg

from tests.benchmarks import machine
from tests.benchmarks.bare_loop import BATCH
from tests.product.config import load_settings, read_sources

_SERVER_SETTINGS = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "shared_buffers",
    "track_commit_timestamp",
    "max_connections",
)


async def described(observer: asyncpg.Connection) -> dict[str, Any]:
    """As JSON will hold it."""
    node = load_settings(read_sources(environment={})).node
    return {
        "machine": machine.described(),
        "python": platform.python_version(),
        "asyncpg": metadata.version("asyncpg"),
        "uvloop": metadata.version("uvloop"),
        "server": {
            name: await observer.fetchval("SELECT current_setting($1)", name)
            for name in _SERVER_SETTINGS
        },
        "bare loop": {"batch": BATCH, "connections": 1},
        "node": {
            "slots": node.slots,
            "prefetch": node.prefetch,
            "lease_ttl": node.lease_ttl,
            "horizon": node.horizon,
            "poll_interval": node.poll_interval,
        },
    }
