from __future__ import annotations

import re

import pytest

from tests.sessions import own_session
from tests.web.conftest import Site


async def execute(dsn: str, statement: str) -> None:
    connection = await own_session(dsn)
    await connection.execute(statement)
    await connection.close()


def line(page: str, queue: str) -> str:
    """The text of a queue's row in the list."""
    rows = page.partition('id="list"')[2].split("<tr>")
    (row,) = [row for row in rows if f"<bdi>{queue}</bdi>" in row]
    return " ".join(re.sub(r"<[^>]+>", " ", row).split())


async def test_without_queues_the_page_says_how_they_come_to_be(site: Site) -> None:
    page = await site.get("/queues")

    assert page.status_code == 200
    assert "No queues yet" in page.text


async def test_a_queue_shows_what_is_due_to_come_running_and_blocked(read_site: Site) -> None:
    page = (await read_site.get("/queues")).text

    # The seed: 120 due letters in a paused queue; one run blocked; 30 runs in the next half hour.
    assert line(page, "mail").startswith(
        "‖ paused mail Paused by ana: provider maintenance until 18:00; 120 due runs wait. 120"
    )
    default = line(page, "default")
    assert "⊘ blocked default No live node offers &#39;py:nobody.offers&#39; for queue" in default
    assert re.search(r"⊘ 1 2 nodes", default)
    assert " 1 0 2 nodes " in line(page, "etl")  # one runs, none is blocked


async def test_work_that_no_node_takes_is_the_gravest(full_site: Site, full_database: str) -> None:
    await execute(full_database, "INSERT INTO pgcron.run (handler, queue) VALUES ('py:ocr', 'ocr')")

    page = (await full_site.get("/queues")).text

    assert line(page, "ocr").startswith("✕ unserved ocr No living node takes from it")
    names = re.findall(r"<bdi>(\w+)</bdi></a><span", page)
    assert names[0] == "ocr"


async def test_a_served_queue_that_falls_behind_is_lagging(
    full_site: Site, full_database: str
) -> None:
    await execute(
        full_database,
        """INSERT INTO pgcron.run (handler, queue, due_at)
           VALUES ('py:etl.orders', 'etl', now() - interval '5 min');
           UPDATE pgcron.node SET slots_used = slots""",
    )

    page = (await full_site.get("/queues")).text

    assert "▲ lagging etl The oldest waits for 5" in line(page, "etl")
    assert "every slot is busy." in line(page, "etl")


async def test_the_head_of_a_queue_says_what_each_run_waits_for(
    full_site: Site, full_database: str
) -> None:
    await execute(
        full_database,
        """INSERT INTO pgcron.run (handler, queue, due_at, delivery)
           VALUES ('py:unknown', 'etl', now() - interval '5 min', 'at_most_once'),
                  ('py:etl.products', 'etl', now() - interval '4 min', 'at_least_once');
           INSERT INTO pgcron.run (origin, schedule_id, schedule, nominal_for, handler, queue,
                                   overlap, due_at)
           SELECT 'manual', id, name, now(), handler, queue, 'skip', now() - interval '3 min'
           FROM pgcron.schedule WHERE name = 'etl/orders'""",
    )

    etl = (await full_site.get("/queues/etl")).text.partition('id="next"')[2]
    mail = (await full_site.get("/queues/mail")).text.partition('id="next"')[2]

    waits = [
        " ".join(re.sub(r"<[^>]+>", "", found).split())
        for found in re.findall(r'data-label="Waits for"[^>]*>(.*?)</td>', etl, re.DOTALL)
    ]
    assert waits[0] == "no live node offers &#39;py:unknown&#39; for queue &#39;etl&#39;."
    assert waits[1] == "a node takes it at its next look."
    assert re.match(r"run \d+ of the same schedule is not over \(overlap: skip\)\.", waits[2])
    assert mail.count("queue mail is paused by ana (provider maintenance until 18:00).") == 15
    assert re.findall(r'<th scope="col"[^>]*>([^<]+)', etl)[:3] == ["Run", "Handler", "Schedule"]


async def test_pause_and_resume_are_forms_with_a_note(full_site: Site, full_database: str) -> None:
    paused = await full_site.post("/queues/etl/pause", note="<b>moving</b> the disks")
    page = await full_site.get(paused.headers["location"])
    resumed = await full_site.post("/queues/etl/resume")
    after = await full_site.get(resumed.headers["location"])

    assert (paused.status_code, resumed.status_code) == (303, 303)
    assert "no node takes runs from this queue" in page.text
    assert "Paused by ui:local: &lt;b&gt;moving&lt;/b&gt; the disks" in page.text
    assert 'action="/queues/etl/resume"' in page.text
    assert 'action="/queues/etl/pause"' in after.text
    assert "ui:local" not in after.text


async def test_a_cluster_that_is_paused_is_said_on_top(full_site: Site, full_database: str) -> None:
    await execute(full_database, "SELECT pgcron.pause_cluster('move', 'ana')")

    listing = await full_site.get("/queues")
    queue = await full_site.get("/queues/default")

    assert "Everything is paused</strong>: ana: move." in listing.text
    assert "the whole cluster is paused by ana (move)" in queue.text.partition('id="next"')[2]


async def test_a_queue_with_many_runs_is_counted_up_to_a_bound(
    full_site: Site, full_database: str
) -> None:
    await execute(
        full_database,
        """INSERT INTO pgcron.run (handler, queue, due_at)
           SELECT 'py:report', 'bulk', now() - n * interval '1 ms'
           FROM generate_series(1, 10500) n""",
    )

    page = (await full_site.get("/queues")).text

    assert re.search(r" 10\W?000\+ ", line(page, "bulk"))


@pytest.mark.parametrize(
    ("path", "status", "hint"),
    [
        ("/queues/defualt", 404, "/queues/default"),
        ("/queues/%22%3E%3Cscript%3E", 404, "does not exist"),
        ("/queues?queue=etl", 400, "unknown field"),
        ("/queues/%00", 404, "there is no page"),
    ],
)
async def test_what_does_not_exist_is_a_page_with_the_nearest(
    read_site: Site, path: str, status: int, hint: str
) -> None:
    page = await read_site.get(path)

    assert page.status_code == status
    assert hint in page.text


async def test_a_name_that_no_queue_can_have_is_refused(full_site: Site) -> None:
    answer = await full_site.post("/queues/a%2Fb/pause")

    assert answer.status_code == 400
    assert "is not a queue name" in answer.text


@pytest.mark.parametrize("most", [2, 9])
async def test_runs_of_a_key_or_a_limited_queue_say_what_they_wait_for(
    full_site: Site, full_database: str, most: int
) -> None:
    await execute(
        full_database,
        f"""SELECT pgcron.set_queue('etl', max_running => {most});
           SELECT pgcron.enqueue('py:etl.orders', queue => 'etl', concurrency_key => 'customer <7>')
             FROM generate_series(1, 3);
           SELECT pgcron.enqueue('py:etl.orders', queue => 'etl');
           UPDATE pgcron.run SET state = 'running', attempt = 1, token = gen_random_uuid(),
                  fence = 1, claimed_at = now(), key_slot = 1,
                  owner = (SELECT owner FROM pgcron.run WHERE state = 'running' LIMIT 1)
            WHERE id = (SELECT min(id) FROM pgcron.run WHERE concurrency_key > '')""",
    )

    page = (await full_site.get("/queues/etl")).text

    assert f"of at most {most}" in page
    of_queue = page.count("queue etl executes 2 already, as many as it may")
    of_key = page.count("every slot of its concurrency key customer &lt;7&gt; is taken")
    assert (of_queue, of_key) == ((3, 0) if most == 2 else (0, 2))
    assert (
        "▮ full etl It executes 2 runs, as many as it may. 3"
        in line((await full_site.get("/queues")).text, "etl")
    ) is (most == 2)
