"""What the shop's nodes execute."""

from __future__ import annotations

import asyncio

from pgcron_ha import App, Context
from tests.e2e.evidence import executing

app = App()


@app.handler("send_invoice")
async def send_invoice(context: Context, order: int) -> None:
    """One row in the transaction that also ends the run; there is time to be killed in it."""
    with executing(context):
        async with context.connection() as connection:
            await connection.execute(
                "INSERT INTO invoices (order_id, run_id) VALUES ($1, $2)", order, context.run_id
            )
            await asyncio.sleep(0.05)
