"""Workflows by every kind of hand, executed by a node; their pages fit, and follow them."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest

from tests.waiting import until
from tests.web.browser.conftest import Cluster
from tests.web.browser.hands import Hands
from tests.web.browser.intact import what_is_injected
from tests.web.browser.test_every_page import LACKING, OUT_OF_REACH
from tests.web.browser.test_verbs import ACTOR, one, outcome, run_of, says
from tests.web.browser.test_verbs import hands as hands  # a fixture
from tests.web.browser.watched import Colours, Windows
from tests.web.conftest import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

STEPS = [
    {"name": "extract", "handler": "py:quick"},
    {"name": "quality", "wait_for": "approval", "after": "extract"},
    {"name": "file", "wait_for": "signal", "after": "quality"},
    {"name": "load", "handler": "py:quick", "after": "file"},
]


async def defined(cluster: Cluster, steps: list[dict[str, Any]]) -> str:
    """The name of a new workflow."""
    name = f"clicked-{uuid.uuid4().hex[:8]}"
    definition = json.dumps({"steps": steps})
    await cluster.execute("SELECT pgcron.put_workflow($1, $2)", name, definition)
    return name


async def started(hands: Hands, name: str, until_it_says: str) -> int:
    await hands.open(f"/workflows/{name}")
    run = run_of(await hands.press("Start", args='{"day": "<b>1</b>"}'))
    await until(f"it says {until_it_says}", lambda: says(hands, run, until_it_says))
    return run


async def state(cluster: Cluster, run: int, step: str) -> Any:
    query = "SELECT state FROM pgcron.workflow_steps WHERE run_id = $1 AND name = $2 AND item = -1"
    return await one(cluster, query, run, step)


async def becomes(cluster: Cluster, run: int, step: str, word: str) -> None:
    async def is_so() -> bool:
        return bool(await state(cluster, run, step) == word)

    await until(f"step {step} is {word}", is_so)


async def test_a_workflow_is_started_paused_resumed_approved_and_signalled(
    hands: Hands, cluster: Cluster
) -> None:
    run = await started(hands, await defined(cluster, STEPS), "waits for approval")
    made = "SELECT args ->> 'day', created_by FROM pgcron.runs WHERE id = $1"
    assert tuple((await cluster.execute(made, run))[0]) == ("<b>1</b>", ACTOR)

    await hands.press("Pause", note="the “disk” is <b>full</b>")
    paused = "SELECT paused_by, paused_note FROM pgcron.workflow_runs WHERE run_id = $1"
    noted = (ACTOR, "the “disk” is <b>full</b>")
    assert tuple((await cluster.execute(paused, run))[0]) == noted
    assert "paused by ui:local: the “disk” is <b>full</b>" in await hands.text()
    await hands.press("Resume")
    assert tuple((await cluster.execute(paused, run))[0]) == (None, None)

    await hands.open(f"/runs/{run}/steps/quality")
    await hands.press("Approve", note="fine")
    await becomes(cluster, run, "quality", "succeeded")
    await becomes(cluster, run, "file", "running")
    await hands.open(f"/runs/{run}/steps/file")
    await hands.press("Signal", payload='{"path": "a.csv"}')
    assert await outcome(cluster, run) == "succeeded"
    result = "SELECT result FROM pgcron.workflow_steps WHERE run_id = $1 AND name = 'file'"
    assert json.loads(await one(cluster, result, run)) == {"path": "a.csv"}


async def test_steps_are_rejected_skipped_marked_cleared_and_get_args(
    hands: Hands, cluster: Cluster
) -> None:
    steps = [*STEPS, {"name": "also", "wait_for": "approval", "after": "extract"}]
    name = await defined(cluster, steps)
    run = await started(hands, name, "waits for approval")

    async def press(step: str, label: str, **fields: str) -> None:
        await hands.open(f"/runs/{run}/steps/{step}")
        await hands.press(label, **fields)

    async def first() -> Any:
        query = "SELECT step_run FROM pgcron.workflow_steps WHERE run_id = $1 AND number = 1"
        return await one(cluster, query, run)

    await press("load", "Change args", args='{"only": 3}')
    changed = "SELECT s.args ->> 'only' FROM pgcron.step s JOIN pgcron.workflow_step d"
    changed += " USING (definition, number) WHERE s.workflow = $1 AND d.name = 'load'"
    assert await one(cluster, changed, run) == "3"
    before = await first()
    await press("extract", "Run again from here", note="the file was late")

    async def is_cleared() -> bool:
        return bool(await first() != before)

    await until("it runs again", is_cleared)
    await becomes(cluster, run, "quality", "running")
    await press("quality", "Mark as succeeded", result='{"rows": 7}', note="by <b>hand</b>")
    await becomes(cluster, run, "file", "running")
    await press("file", "Skip", note="no time")
    await becomes(cluster, run, "load", "skipped")
    await press("also", "Reject", note="the sums differ")
    assert await outcome(cluster, run) == "dead"
    why = "SELECT reason FROM pgcron.workflow_steps WHERE run_id = $1 AND name = $2"
    marked = "marked as succeeded by ui:local: by <b>hand</b>"
    assert await one(cluster, why, run, "quality") == marked
    assert await one(cluster, why, run, "file") == "skipped by ui:local: no time"


@pytest.mark.parametrize(
    ("colours", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)]
)
async def test_the_pages_of_a_workflow_fit_and_say_what_they_draw(
    full_site: Site, windows: Windows, colours: Colours, width: int
) -> None:
    async with windows.tab(full_site.url, colours=colours, width=width) as tab:
        await tab.open("/workflows/nightly")
        link = await tab.page.locator("#grid tbody a").first.get_attribute("href")
        assert link is not None
        run = link.partition("/steps")[0]
        shown = ("/workflows", "/workflows/nightly", run, f"{run}/steps/each")
        for address in (*shown, f"{run}?verb=cancel", f"{run}/steps/each?verb=succeed"):
            await tab.open(address)
            assert (address, await tab.overflow()) == (address, 0)
            assert (address, await tab.page.evaluate(OUT_OF_REACH)) == (address, [])
            assert (address, await tab.page.evaluate(LACKING)) == (address, [])
            assert (address, await what_is_injected(tab)) == (address, [])
        await tab.open(run)
        assert await tab.page.locator("svg.graph a").count() == 4
        graph = tab.page.get_by_role("group", name=re.compile("^Steps of run"))
        assert await graph.is_visible()


async def test_the_page_of_a_run_follows_its_steps(cluster: Cluster, windows: Windows) -> None:
    name = await defined(cluster, STEPS)
    start = "SELECT pgcron.start_workflow($1::text, due_at => now() + interval '1 h')"
    run = await one(cluster, start, name)
    async with windows.tab(cluster.url) as tab:
        await tab.open(f"/runs/{run}")
        await tab.page.evaluate("window.marked = true")
        assert await tab.page.locator("svg.graph").count() == 0
        await cluster.execute("SELECT pgcron.retry_run($1)", run)

        quality = tab.page.locator("svg.graph a", has_text="quality")
        await quality.filter(has_text="waits for approval").wait_for(timeout=20_000)
        await cluster.execute("SELECT pgcron.approve_step($1, 'quality')", run)
        await quality.filter(has_text="succeeded").wait_for(timeout=20_000)
        assert await tab.page.locator("#time *").count() == 0
        assert await tab.page.evaluate("window.marked")


async def test_what_is_typed_on_the_page_of_a_verb_stays_and_is_recorded(
    cluster: Cluster, windows: Windows
) -> None:
    start = "SELECT pgcron.start_workflow($1::text)"
    run = await one(cluster, start, await defined(cluster, STEPS))
    await becomes(cluster, run, "quality", "running")
    page = f"/runs/{run}?verb=pause"
    async with windows.tab(cluster.url) as tab:
        await tab.open(f"/runs/{run}")
        await tab.page.get_by_role("link", name="Pause", exact=True).focus()
        async with tab.page.expect_navigation(url=f"**{page}"):
            await tab.page.keyboard.press("Enter")
        assert "those that run (1) go on" in await tab.page.locator("main").inner_text()
        why = tab.page.get_by_label("Why (optional)")
        await why.fill("new “disks”")
        await tab.page.evaluate("document.activeElement.blur()")
        async with tab.page.expect_response(lambda answer: answer.url.endswith(page)):
            await tab.page.keyboard.press("r")
        assert await why.input_value() == "new “disks”"
        async with tab.page.expect_navigation(url=f"**/runs/{run}**"):
            await why.press("Enter")
        assert "Paused: no further step of it begins" in await tab.page.inner_text("#notice")

    recorded = "SELECT actor, note FROM pgcron.audit WHERE verb = 'pause' AND name = $1"
    assert tuple((await cluster.execute(recorded, str(run)))[0]) == (ACTOR, "new “disks”")
