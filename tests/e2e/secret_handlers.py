"""Handlers that do with their secret args what they should not."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

from pgcron_ha import App, Context, Secret, Workflow
from tests.e2e.handlers import STEP_SECONDS

FILLING = "x" * 8180  # so that a line is cut within what follows


def spill(context: Context, card: str) -> None:
    print(f"the card is {card}", flush=True)
    print(f"{FILLING} {card}", flush=True)
    logging.getLogger("shop").warning("card %s", card)
    context.progress(1, 2, f"paid with {card}")


def made(dsn: str | None = None) -> App:
    """An App with these handlers."""
    app = App(dsn)

    @app.handler("charge")
    async def charge(context: Context, card: Secret[str], day: str = "") -> Secret[dict[str, str]]:
        spill(context, card)
        return {"receipt": f"paid with {card} on {day}"}

    @app.handler("charge_plainly")
    def charge_plainly(context: Context, card: Secret[str], pin: Secret[int] = 0) -> dict[str, Any]:
        spill(context, card)
        return {"paid": f"with {card}", "pin": pin, "length": len(card)}

    @app.handler("charge_slowly")
    async def charge_slowly(context: Context, card: Secret[str], path: str) -> None:
        context.progress(1, 2, f"paid with {card}")
        while not Path(path).exists():  # noqa: ASYNC110 (another process makes it)
            await asyncio.sleep(STEP_SECONDS)

    @app.handler("fail_to_charge", max_attempts=1)
    async def fail_to_charge(context: Context, card: Secret[str]) -> None:
        spill(context, card)
        try:
            raise ValueError(f"{'y' * 2040} {card} {'z' * 4096}")
        except ValueError as error:
            raise RuntimeError(f"{card} was refused") from error

    @app.handler("charge_apart", isolation="process", max_attempts=1)
    def charge_apart(context: Context, card: Secret[str], fails: bool = False) -> Secret[str]:
        spill(context, card)
        if fails:
            raise RuntimeError(f"{card} was refused")
        return f"paid with {card}"

    @app.handler("environment", isolation="process")
    def environment() -> list[str]:
        return sorted(os.environ)

    @app.handler("refund")
    def refund(item: Secret[str]) -> None:
        print(f"{item} gets it back")

    @app.workflow("pay")
    def pay(flow: Workflow) -> None:
        flow.step("charge", name="by_path", args={"card": flow.args["card"]})
        flow.step("charge", name="fixed", args={"card": "4929 1234+5678/9012"})

    return app


app = made()
