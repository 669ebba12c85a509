"""A later version of the handler set: `work` is gone, `later` has come."""

from __future__ import annotations

from pgcron_ha import App, Context
from tests.e2e import evidence

app = App()


@app.handler("later")
async def later(context: Context) -> None:
    with evidence.executing(context):
        pass
