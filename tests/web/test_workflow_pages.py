"""The pages of workflows: what they show, and what can be done there."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tests.db.control import Connection, fail, join
from tests.db.workflows import Stage
from tests.product.db import connect
from tests.waiting import until
from tests.web.conftest import Site
from tests.web.workflows import ETL, begin_etl, put, stage_of


@dataclass
class Etl:
    """A server over a cluster in which the workflow etl ran, and runs."""

    site: Site
    stage: Stage
    run: int

    async def page(self, path: str = "") -> str:
        answer = await self.site.get(f"/runs/{self.run}{path}")
        assert answer.status_code == 200, answer.text
        return answer.text

    async def shows(self, path: str, region: str, *phrases: str) -> str:
        """The region of a page, as soon as it says all that; others share a page for a second."""

        async def found() -> str | None:
            text = part(await self.page(path), region)
            return text if all(phrase in words(text) for phrase in phrases) else None

        text = await until(f"{path or 'the page of the run'} says {phrases}", found)
        assert text is not None
        return text

    async def post(self, path: str, **fields: str) -> str:
        """The page that a verb leads to."""
        answer = await self.site.post(f"/runs/{self.run}{path}", **fields)
        assert answer.status_code == 303, words(answer.text)
        return (await self.site.get(answer.headers["location"])).text


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Connection]:
    made = await connect(database)
    yield made
    await made.close()


@pytest.fixture
async def etl(site: Site, connection: Connection) -> Etl:
    stage, run = await begin_etl(connection)
    return Etl(site, stage, run)


def words(text: str) -> str:
    """What a person reads."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def part(page: str, name: str) -> str:
    """A region of a page by its id, up to the next one."""
    return page.partition(f'id="{name}"')[2].partition("<section")[0]


def nodes(page: str) -> dict[str, str]:
    """The steps of the graph with their words."""
    found = re.findall(r'<text class="node-name"[^>]*>(.*?)</text><text[^>]*>(.*?)</text>', page)
    return {html.unescape(name): html.unescape(word).strip() for name, word in found}


async def test_without_workflows_the_page_says_how_they_come_to_be(site: Site) -> None:
    page = await site.get("/workflows")

    assert page.status_code == 200
    assert "No workflows yet" in page.text


async def test_the_list_is_filtered_by_the_owner_and_the_tags_of_the_last_run(
    etl: Etl, connection: Connection
) -> None:
    await put(etl.stage, "unused", ETL)
    await connection.execute("SELECT pgcron.set_team('queue', 'default', 'ops')")
    await connection.execute("UPDATE pgcron.run SET tags = '{x,y}' WHERE id = $1", etl.run)

    async def found(query: str) -> list[str]:
        text = (await etl.site.get(f"/workflows?{query}")).text
        return [name for name in ("etl", "unused") if f'href="/workflows/{name}"' in text]

    assert await found("") == ["etl", "unused"]
    for query in ("tag=x", "owner=ops", "tag=y&owner=ops&text=et"):
        assert (query, await found(query)) == (query, ["etl"])
    for query in ("tag=z", "owner=sales", "tag=x&owner=sales"):
        assert (query, await found(query)) == (query, [])
    assert "No workflow matches" in (await etl.site.get("/workflows?tag=z")).text
    await connection.execute("SELECT pgcron.kill_run($1)", etl.run)
    await etl.stage.work()
    assert await found("tag=x&owner=ops") == ["etl"]


async def test_the_list_has_each_workflow_with_its_last_runs(etl: Etl) -> None:
    page = (await etl.site.get("/workflows")).text
    found = re.sub(r"\d+ s ago", "now", words(part(page, "list")))  # on a slow machine

    assert "▶ running now etl Nightly load with a quality gate 8 ✓ ▶ 1 now sql" in found
    assert f'href="/runs/{etl.run}"' in page
    assert "No workflow matches" in (await etl.site.get("/workflows?text=nothing")).text
    assert "Nightly load" in (await etl.site.get("/workflows?text=TL")).text
    assert '<a href="/workflows" data-key="w" aria-current="page">Workflows</a>' in page


async def test_a_workflow_shows_its_graph_and_how_each_step_of_its_last_runs_ended(
    etl: Etl,
) -> None:
    page = (await etl.site.get("/workflows/etl")).text

    assert nodes(page) == {
        "extract": "py:extract",
        "resize": "py:resize",
        "check": "py:check",
        "quality": "waits for approval",
        "load": "py:load",
        "report": "py:report",
        "undo_load": "py:refund",
        "cleanup": "py:cleanup",
    }
    rows = re.findall(r'<tr><th scope="row">(\w+)</th>(.*?)</tr>', page)
    cells = {name: words(found) for name, found in rows}
    assert cells["extract"] == "✓ ✓"
    assert cells["check"] == "✕ ✓"
    assert cells["quality"] == "▶ ✓"
    assert cells["undo_load"] == "○ ∅"
    facts = words(part(page, "facts"))
    assert "After a failure the others continue" in facts
    assert "Timeout 8 h" in facts
    assert (await etl.site.get("/workflows/etk")).status_code == 404


async def test_a_run_shows_how_far_each_of_its_steps_is(etl: Etl) -> None:
    page = await etl.page()

    head = words(part(page, "head"))
    assert "▶ running" in head
    assert "<dt>Deadline</dt>" in page
    over = await etl.stage.connection.fetchval("SELECT min(run) FROM pgcron.workflow_run")
    assert "<dt>Deadline</dt>" not in (await etl.site.get(f"/runs/{over}")).text
    assert "2 of 8 steps ended, 1 failed, 2 running." in head
    assert nodes(page)["resize"] == "▶ 0 of 3"
    assert nodes(page)["quality"] == "◷ waits for approval"
    assert nodes(page)["check"] == "✕ dead"
    assert nodes(page)["cleanup"] == "○ waiting"
    assert f'href="/runs/{etl.run}/steps/extract"' in page
    assert 'role="group" aria-labelledby="graph-name graph-about"' in page
    steps = words(part(page, "steps"))
    assert "○ waiting load it waits for 2 of 2 steps: resize, quality" in steps
    assert "◷ waits for approval quality it waits for the approval until" in steps
    assert "✕ dead check optional it went wrong" in steps
    assert "all waiting 4 running 2 succeeded 1 dead 1" in steps
    gantt = part(page, "gantt")
    assert re.search(r"extract: succeeded, [^,]+, on the critical path", gantt)
    assert "check: dead" in gantt


async def test_steps_are_filtered_by_state(etl: Etl) -> None:
    steps = words(part(await etl.page("?state=dead"), "steps"))

    assert "it went wrong" in steps
    assert "it waits for 2 of 2" not in steps
    wrong = await etl.site.get(f"/runs/{etl.run}?state=asleep")
    assert wrong.status_code == 400


async def test_a_step_says_what_it_waits_for_and_its_run_what_step_it_is(etl: Etl) -> None:
    load = await etl.page("/steps/load")
    assert "It waits for 2 of 2 steps: resize, quality" in words(part(load, "head"))
    assert "&#34;after&#34;: [" in part(load, "data")
    extract = await etl.page("/steps/extract")
    assert "&#34;files&#34;: [" in part(extract, "data")
    found = re.search(r'href="/runs/(\d+)">run \d+</a></dd>', part(extract, "facts"))
    assert found is not None
    run = (await etl.site.get(f"/runs/{found[1]}")).text
    assert f'<a href="/runs/{etl.run}/steps/extract"><bdi>extract</bdi></a>' in run
    assert "Retry" not in words(part(run, "verbs"))
    assert (await etl.site.get(f"/runs/{etl.run}/steps/none")).status_code == 404


async def test_a_list_shows_its_items(etl: Etl) -> None:
    page = await etl.page("/steps/resize")

    items = words(part(page, "steps"))
    assert "Items 3 items all running 3" in items
    assert "▶ running item 0" in items
    last = words(part(await etl.page("/steps/resize?after=1"), "steps"))
    assert "item 2" in last
    assert "item 1 " not in last
    assert (await etl.site.get(f"/runs/{etl.run}/steps/resize?after=x")).status_code == 400


async def test_the_failures_of_a_list_are_grouped_by_cause(etl: Etl) -> None:
    assert 'id="causes"' not in await etl.page("/steps/resize")
    connection = etl.stage.connection
    query = "SELECT * FROM pgcron.run WHERE handler = 'py:resize' AND token IS NOT NULL ORDER BY id"
    for row, cause in zip(await connection.fetch(query), ("gone", "gone", "locked"), strict=True):
        await fail(connection, [row], retryable=False, fingerprint=cause)
    await etl.stage.advance()

    causes = await etl.shows(
        "/steps/resize", "causes", "2 it went wrong 0 to 1", "1 it went wrong 2"
    )
    assert causes.count('<th scope="row"') == 2


async def test_a_workflow_is_started_with_args(etl: Etl) -> None:
    page = await etl.site.post("/workflows/etl/start", args='{"day": 3}', operation="o" * 32)
    again = await etl.site.post("/workflows/etl/start", args='{"day": 3}', operation="o" * 32)
    refused = await etl.site.post("/workflows/etl/start", args="[3]")

    run = int(page.headers["location"].partition("?")[0].rpartition("/")[2])
    assert again.headers["location"] == f"/runs/{run}?done=repeated"
    row = await etl.stage.connection.fetchrow("SELECT * FROM pgcron.runs WHERE id = $1", run)
    assert row is not None
    assert (row["handler"], row["args"], row["created_by"]) == (
        "workflow:etl",
        '{"day": 3}',
        "ui:local",
    )
    assert refused.status_code == 400
    assert "args is a JSON array" in words(refused.text)


async def test_a_run_says_the_whole_reason_why_it_is_paused_or_stops(etl: Etl) -> None:
    why = "the disk is full, " * 20 + "and so is the other one"

    paused = await etl.post("/pause", note=why)
    cancelled = await etl.post("/cancel", note=why)

    assert f"Paused ui:local: {why}" in words(part(paused, "facts"))
    assert f"Stops because cancelled by ui:local: {why}" in words(part(cancelled, "facts"))


async def test_a_run_is_paused_resumed_and_cancelled(etl: Etl) -> None:
    paused = await etl.post("/pause", note="the <b>disk</b> is full")
    resumed = await etl.post("/resume")
    await etl.post("/cancel", note="not today")
    await etl.stage.advance()
    cancelled = await etl.shows("", "head", "cancelled by ui:local: not today")

    assert "No further step begins: paused by ui:local: the <b>disk</b> is full." in words(
        part(paused, "head")
    )
    assert f'href="/runs/{etl.run}?verb=resume"' in paused
    assert f'href="/runs/{etl.run}?verb=pause"' in resumed
    assert f'href="/runs/{etl.run}?verb=cancel"' not in cancelled
    killed = await etl.post("/kill")
    stopping = "SELECT stopping FROM pgcron.workflow_run WHERE run = $1"
    assert await etl.stage.connection.fetchval(stopping, etl.run) == "abort"
    assert f'href="/runs/{etl.run}?verb=kill"' not in killed


async def test_an_approval_is_given_or_refused(etl: Etl) -> None:
    page = await etl.page("/steps/quality")
    assert "Approve" in words(part(page, "verbs"))
    approved = await etl.post("/steps/quality/approve", note="looks fine")
    await etl.stage.advance()

    assert "its dependents go on" in approved
    assert "?verb=approve" not in await etl.shows("/steps/quality", "head", "✓ succeeded")
    assert "looks fine" in words(part(await etl.page("/steps/quality"), "data"))
    assert await state(etl, "quality") == "succeeded"
    refused = await etl.site.post(f"/runs/{etl.run}/steps/quality/reject")
    assert refused.status_code == 409


async def test_a_signal_that_comes_early_is_kept(etl: Etl) -> None:
    definition = {
        "steps": [
            {"name": "extract", "handler": "py:extract"},
            {"name": "file", "wait_for": "signal", "after": "extract"},
        ]
    }
    await put(etl.stage, "etl", definition)
    etl.run = await etl.stage.start("etl")
    kept = await etl.post("/steps/file/signal", payload='{"path": "a.csv"}')
    wrong = await etl.site.post(f"/runs/{etl.run}/steps/file/signal", payload="{path")
    await etl.stage.work()

    assert "Kept: the step takes it once it waits for it." in kept
    assert wrong.status_code == 400
    assert "a.csv" in await etl.shows("/steps/file", "data", "Result")


async def test_steps_are_skipped_marked_cleared_and_get_args(etl: Etl) -> None:
    await etl.post("/steps/load/args", args='{"only": 3}')
    assert "&#34;only&#34;: 3" in await etl.page("/steps/load")
    await etl.post("/steps/quality/skip", note="no time")
    await etl.post("/steps/report/succeed", result='{"rows": 7}', note="by hand")
    await etl.stage.advance()

    await etl.shows("/steps/quality", "head", "∅ skipped", "Skipped by ui:local: no time.")
    await etl.shows("/steps/report", "head", "Marked as succeeded by ui:local: by hand.")
    await etl.shows("/steps/report", "data", '"rows": 7')
    cleared = await etl.post("/steps/check/clear", note="the sums are right now")
    await etl.stage.advance()
    assert "run again" in cleared
    assert await state(etl, "check") == "running"


VERBS_OF_RUNS = {
    "pause": "Its steps that have not begun (4) wait until it is resumed; those that run (2)",
    "cancel": "Its steps that run (2) are ended, and of the others (4) only compensations and",
    "kill": "Its steps that run (2) are ended, and none of the others (4) begins",
}
VERBS_OF_STEPS = {
    ("quality", "approve"): "Approved, it succeeds.",
    ("quality", "reject"): "Rejected, it fails.",
    ("quality", "clear"): "comes after it (5 steps) run again; those of them that run now (1) are",
    ("extract", "clear"): "comes after it (8 steps) run again; those of them that run now (2) are",
    ("check", "skip"): "goes on by its rule. What comes after it (5 steps) runs again.",
    ("resize", "skip"): "goes on by its rule. Its items that are open (3) end with it.",
    ("resize", "succeed"): "what comes after it goes on. Its items that are open (3) end with it.",
    ("load", "set_args"): "It begins with these besides those of its definition.",
}


async def test_each_verb_has_a_page_that_says_what_it_will_do_and_does_nothing(etl: Etl) -> None:
    before = await written(etl)
    said = {f"?verb={verb}": words for verb, words in VERBS_OF_RUNS.items()}
    for (step, verb), sentence in VERBS_OF_STEPS.items():
        said[f"/steps/{step}?verb={verb}"] = sentence
    for address, sentence in said.items():
        page, verb = await etl.page(address), address.rpartition("=")[2]
        here = f"/runs/{etl.run}{address.partition('?')[0]}"
        assert sentence in words(page), address
        assert f'href="{here}?verb={verb}"' in await etl.page(address.partition("?")[0]), address
        assert f'<a class="button" href="{here}">Back</a>' in page, address
        assert page.count('method="post"') == 1, address
        assert f'action="{here}/{verb.removeprefix("set_")}"' in page, address
        assert "data-refresh" not in page, address
        assert 'name="note"' in page, address
    assert 'name="result"' in await etl.page("/steps/resize?verb=succeed")
    assert " required></textarea>" in await etl.page("/steps/load?verb=set_args")

    assert await written(etl) == before


async def written(etl: Etl) -> str:
    """What verbs write, in short."""
    query = """SELECT md5(concat(
        (SELECT string_agg(s::text, ' ' ORDER BY s.run) FROM pgcron.step s),
        (SELECT string_agg(w::text, ' ' ORDER BY w.run) FROM pgcron.workflow_run w),
        (SELECT count(*) FROM pgcron.step_outbox), (SELECT count(*) FROM pgcron.audit)))"""
    found: str = await etl.stage.connection.fetchval(query)
    return found


async def test_a_verb_that_is_not_known_has_no_page_and_one_that_can_not_be_done_leads_back(
    etl: Etl,
) -> None:
    for address in (f"/runs/{etl.run}", f"/runs/{etl.run}/steps/load"):
        unknown = await etl.site.get(f"{address}?verb=delete")
        assert unknown.status_code == 404
        assert "verb &#39;delete&#39; does not exist" in unknown.text
    for address, verb in (("", "resume"), ("/steps/load", "clear"), ("/steps/load", "signal")):
        late = await etl.site.get(f"/runs/{etl.run}{address}?verb={verb}")
        assert (late.status_code, late.headers["location"]) == (303, f"/runs/{etl.run}{address}")


async def state(etl: Etl, step: str) -> str:
    return (await etl.stage.states(etl.run))[step]


async def test_a_dead_workflow_is_redriven(etl: Etl) -> None:
    steps = [{"name": "extract", "handler": "py:extract"}]
    steps.append({"name": "load", "handler": "py:load", "after": "extract"})
    await put(etl.stage, "etl", {"steps": steps})
    etl.run = await etl.stage.start("etl")
    await etl.stage.work({"load": ValueError("no such table")})
    await etl.shows("", "head", "✕ dead", "2 of 2 steps ended, 1 failed. Step load dead")
    page = await etl.page()

    assert "?verb=pause" not in page
    assert f'href="/runs/{etl.run}?verb=redrive"' in page
    asked = await etl.page("?verb=redrive")
    assert f'action="/dead/{etl.run}/redrive"' in asked
    assert "keeps its steps that succeeded (1)" in asked
    redriven = await etl.site.post(f"/dead/{etl.run}/redrive")
    etl.run = int(redriven.headers["location"].partition("?")[0].rpartition("/")[2])
    await etl.stage.turn({})
    assert await state(etl, "extract") == "succeeded"
    assert nodes(await etl.page())["extract"] == "✓ succeeded"


async def test_a_workflow_that_has_not_begun_is_a_run_as_others(
    site: Site, connection: Connection
) -> None:
    await put(await stage_of(connection), "etl", ETL)
    run = await connection.fetchval("SELECT pgcron.start_workflow('etl'::text)")

    page = (await site.get(f"/runs/{run}")).text

    assert "has been due for" in words(part(page, "head"))
    # What the script fills when it has begun.
    assert '<section id="graph" class="card" data-live></section>' in page


async def test_a_run_within_a_paused_one_names_it_and_offers_no_resume(etl: Etl) -> None:
    etl.stage.node = await join(etl.stage.connection, handlers=["workflow:etl", "workflow:all"])
    await put(etl.stage, "all", {"steps": [{"name": "nightly", "handler": "workflow:etl"}]})
    outer = await etl.stage.start("all")
    await etl.stage.turn({})
    query = "SELECT step_run FROM pgcron.workflow_steps WHERE run_id = $1"
    etl.run = await etl.stage.connection.fetchval(query, outer)
    await etl.site.post(f"/runs/{outer}/pause", note="the disk is full")
    said = f"No further step begins: run {outer} above is paused by ui:local: the disk is full."
    head = await etl.shows("", "head", said)
    assert f'href="/runs/{etl.run}?verb=resume"' not in head
