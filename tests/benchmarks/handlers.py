"""What the benchmarks' nodes offer: a handler that does nothing but count."""

from __future__ import annotations

from pgcron_ha import App

app = App()
calls = 0


@app.handler()
async def noop(t: int, k: str) -> None:
    """Count one call."""
    global calls
    calls += 1
