"""Owner, description, tags and links of a schedule, and tags of a run, on the pages."""

from __future__ import annotations

import re

from tests.sessions import own_session
from tests.web.conftest import Site
from tests.web.test_runs import numbers

HOSTILE = "<script>alert(1)</script>"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"


def names(text: str) -> list[str]:
    return re.findall(r'<a href="/schedules/(\w+)">', text.partition('id="list"')[2])


async def test_schedules_are_found_by_tag_and_owner(database: str, site: Site) -> None:
    connection = await own_session(database)
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler, owner, description, tags, links) VALUES "
        "('a', '@daily', 'py:x', $1, $1, '{x,team:y}', "
        """'{"<b>book</b>": "https://wiki.example/?a=%22b"}'), """
        "('b', '@daily', 'py:x', 'sales', NULL, '{team:y}', NULL), "
        "('c', '@daily', 'py:x', NULL, NULL, NULL, NULL)",
        HOSTILE,
    )
    await connection.close()

    everything = (await site.get("/schedules")).text
    assert names(everything) == ["a", "b", "c"]
    assert '<option value="team:y">' in everything
    assert names((await site.get("/schedules?tag=team:y")).text) == ["a", "b"]
    assert names((await site.get("/schedules?owner=sales")).text) == ["b"]
    assert names((await site.get("/schedules?owner=sales&tag=team:y")).text) == ["b"]
    assert "No schedule matches" in (await site.get("/schedules?tag=other")).text

    page = (await site.get("/schedules/a")).text
    assert '<a class="chip" href="/schedules?tag=team%3Ay"><bdi>team:y</bdi></a>' in page
    assert 'href="https://wiki.example/?a=%22b" rel="noreferrer noopener"' in page
    assert f"<dt>Owner</dt><dd><bdi>{ESCAPED}</bdi></dd>" in page
    assert f'<p class="card-note description">{ESCAPED}</p>' in page
    assert "<dt>Owner</dt>" not in (await site.get("/schedules/c")).text
    why = (await site.get("/schedules/a/occurrences?at=02:00")).text
    assert f"<bdi>{ESCAPED}</bdi> It belongs to <bdi>{ESCAPED}</bdi>." in why
    assert '<a class="chip" href="/schedules?tag=team%3Ay"><bdi>team:y</bdi></a>' in why
    assert 'href="https://wiki.example/?a=%22b"' in why
    for text in (everything, page, why):
        assert HOSTILE not in text


async def test_runs_are_found_by_tag(database: str, site: Site) -> None:
    connection = await own_session(database)
    enqueue = "SELECT pgcron.enqueue('py:x', tags => $1)"
    tagged = await connection.fetchval(enqueue, ["x", "team:y"])
    ended = await connection.fetchval(enqueue, ["team:y"])
    plain = await connection.fetchval(enqueue, None)
    await connection.execute("SELECT pgcron.cancel_run($1)", ended)
    await connection.close()

    assert numbers((await site.get("/runs")).text) == [plain, ended, tagged]
    found = (await site.get("/runs?tag=team:y")).text
    assert numbers(found) == [ended, tagged]
    assert '<input name="tag" value="team:y"' in found
    assert numbers((await site.get("/runs?tag=team:y&state=cancelled")).text) == [ended]
    assert "No run matches" in (await site.get("/runs?tag=other")).text
    page = (await site.get(f"/runs/{tagged}")).text
    assert '<a class="chip" href="/runs?tag=team%3Ay"><bdi>team:y</bdi></a>' in page
    assert "/runs?tag=" not in (await site.get(f"/runs/{plain}")).text


async def test_what_schedules_made_is_found_by_tag_and_owner_in_every_list(
    database: str, site: Site
) -> None:
    connection = await own_session(database)
    await connection.execute("""
        INSERT INTO pgcron.schedule (name, spec, handler, owner, tags)
        VALUES ('a', '@daily', 'py:a', 'sales', '{x}'), ('b', '@daily', 'py:b', 'ops', '{y}');
        SELECT pgcron.put_schedule('c', '@daily', 'py:c', queue => 'q');
        SELECT pgcron.set_team('queue', 'q', 'ops');
        SELECT pgcron.run_now(s.name) FROM pgcron.schedule s;
        SELECT pgcron.backfill(s.name, now() - interval '3 days') FROM pgcron.schedule s;
        INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, schedule_id, schedule, queue, tags,
                                        priority, handler, args, delivery, attempts, fingerprint)
        SELECT -s.id, gen_random_uuid(), 'dead', s.id, s.name, s.queue, s.tags, 5, s.handler, '{}',
               'at_least_once', 1, s.name FROM pgcron.schedule s
    """)
    for path, known in (
        ("/schedules", ">py:{}<"),
        ("/runs", "bdi>{}</bdi"),
        ("/backfills", "bdi>{}</bdi"),
        ("/dead", ">py:{}<"),
    ):
        for choice in ("tag=x", "owner=sales", "tag=x&owner=sales"):
            page = (await site.get(f"{path}?{choice}")).text
            shown = [name for name in "abc" if known.format(name) in page]
            assert (path, choice, shown) == (path, choice, ["a"])
        page = (await site.get(f"{path}?owner=ops")).text
        assert [name for name in "abc" if known.format(name) in page] == ["b", "c"]
        assert known.format("a") not in (await site.get(f"{path}?tag=x&owner=ops")).text

    page = (await site.get("/dead?tag=x")).text
    assert 'action="/dead/redrive?' not in page  # a single letter
    await site.post("/dead/archive?owner=ops")
    closed = "SELECT schedule FROM pgcron.dead_letter WHERE closed_at IS NOT NULL ORDER BY schedule"
    assert [row["schedule"] for row in await connection.fetch(closed)] == ["b", "c"]
    await site.post("/dead/redrive?tag=x&owner=sales")
    assert len(await connection.fetch(closed)) == 3
    await connection.close()
