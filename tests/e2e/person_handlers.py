"""Handlers that leave what they know of a person wherever a run leaves anything."""

from __future__ import annotations

from typing import Any

from pgcron_ha import App, Breaker, Context


def made(dsn: str | None = None) -> App:
    """An App with these handlers."""
    app = App(dsn)

    @app.handler("greet")
    async def greet(context: Context, person: str, **more: Any) -> dict[str, Any]:
        print(f"hello {person}")
        context.progress(1, 2, f"greeting {person}")
        context.update_asset("greetings")
        return {"greeted": person, **more}

    @app.handler("reject", max_attempts=2, retry={"base": "10ms"}, breaker=Breaker(failures=50))
    async def reject(context: Context, person: str, **more: Any) -> None:
        print(f"goodbye {person}")
        raise RuntimeError(f"{person} is not welcome")

    @app.handler("reject_for_good", max_attempts=1)
    def reject_for_good(person: str, **more: Any) -> None:
        try:
            raise ValueError(more)
        except ValueError as error:
            raise RuntimeError(f"no {person}") from error

    @app.workflow("visit")
    def visit(flow: Any) -> None:
        asked = flow.signal("ask")
        flow.step("greet", name="first", args={"person": flow.args["person"]}, after=asked)
        flow.map("greet", over=asked.result["others"], args={"person": flow.item})

    return app


app = made()
