from __future__ import annotations

import re

import pytest

from tests.sessions import own_session
from tests.web.conftest import Site


async def execute(dsn: str, statement: str, *values: object) -> None:
    connection = await own_session(dsn)
    await connection.execute(statement, *values)
    await connection.close()


async def test_without_nodes_the_page_says_how_to_start_one(site: Site) -> None:
    page = await site.get("/nodes")

    assert page.status_code == 200
    assert "No node is alive" in page.text
    assert "pgcron-ha node" in page.text


async def test_living_nodes_show_lease_slots_queues_and_handlers(read_site: Site) -> None:
    page = await read_site.get("/nodes")

    living = page.text.partition('id="living"')[2].partition('id="dead"')[0]
    for name in ("berlin-1", "berlin-2", "paris-1"):
        assert f"<bdi>{name}</bdi>" in living
    assert "draining" in living
    assert "3 <span" in living  # slots of berlin-1
    assert "of 16" in living
    assert "py:billing.invoices" in living
    assert "and 15 more" in living
    assert "paris-2" not in living


async def test_dead_nodes_say_why_they_ended(full_site: Site, full_database: str) -> None:
    await execute(
        full_database,
        "UPDATE pgcron.node SET state = 'dead', ended_at = now(), ended_because = $1"
        " WHERE name = 'berlin-2'",
        "stopped by a signal",
    )

    page = await full_site.get("/nodes")

    dead = page.text.partition('id="dead"')[2]
    assert "Its lease ran out: its runs were taken over" in dead
    assert re.search(r"gone.*berlin-2.*Stopped by a signal", dead, re.DOTALL)
    assert "1 run waits</span>" not in dead
    assert "1 run waits for being taken over" in dead


async def test_a_handler_that_does_not_stop_is_told_with_its_node_and_needs_attention(
    full_site: Site, full_database: str
) -> None:
    connection = await own_session(full_database)
    [(run, incarnation)] = await connection.fetch(
        """UPDATE pgcron.run SET cancel_at = now(), kill_at = now() - interval '1 min'
           WHERE id = (SELECT r.id FROM pgcron.run r JOIN pgcron.node n ON n.incarnation = r.owner
                       WHERE r.state = 'running' AND n.name = 'berlin-1' ORDER BY r.id LIMIT 1)
           RETURNING id, owner"""
    )
    await connection.close()

    reported = f"Run {run} goes on though asked to stop, and holds its slot."
    for address in ("/nodes", f"/nodes/{incarnation}", "/?attention=all"):
        page = await full_site.get(address)
        assert reported in page.text, address
    attention = page.text.partition('id="attention"')[2].partition("</section>")[0]
    assert "Node berlin-1" in attention
    assert "</span>unresponsive</span>" in attention
    assert "restart the node" in attention


async def test_a_node_whose_lease_ran_out_is_silent_and_not_alive(
    full_site: Site, full_database: str
) -> None:
    await execute(
        full_database,
        "UPDATE pgcron.node SET lease_until = now() - interval '8 s' WHERE name = 'berlin-1'",
    )

    page = await full_site.get("/nodes?state=silent")

    assert "berlin-1" in page.text
    assert "berlin-2" not in page.text
    assert re.search(r"Its lease ran out [\d.]+.s ago; a living one declares it dead", page.text)


async def test_the_head_counts_the_slots_of_the_nodes_that_are_shown(
    full_site: Site, full_database: str
) -> None:
    await execute(full_database, "SELECT pgcron.cordon_node('berlin-1')")

    def head(page: str) -> str:
        return " ".join(page.partition('class="lead muted">')[2].partition("</p>")[0].split())

    every = head((await full_site.get("/nodes")).text)
    cordoned = head((await full_site.get("/nodes?state=cordoned")).text)

    assert re.fullmatch(r"3 nodes, \d+ of 16 slots free\.", every)
    assert cordoned == "1 node."


async def test_a_node_that_hears_nothing_says_what_it_lacks(
    full_site: Site, full_database: str
) -> None:
    await execute(full_database, "UPDATE pgcron.node SET is_pooled = true WHERE name = 'berlin-2'")

    page = await full_site.get("/nodes")

    assert page.text.count("No notification reaches it") == 1
    assert re.search(r"berlin-2.*No notification reaches it", page.text, re.DOTALL)


async def test_mixed_versions_are_pointed_out(full_site: Site, full_database: str) -> None:
    await execute(full_database, "UPDATE pgcron.node SET version = '0.2.0' WHERE name = 'berlin-1'")

    page = await full_site.get("/nodes")

    assert "Mixed versions: 0.1.0, 0.2.0." in page.text


async def test_handler_and_queue_choose_the_nodes_that_serve_them(
    full_site: Site, full_database: str
) -> None:
    await execute(
        full_database,
        "INSERT INTO pgcron.offer SELECT incarnation, 'py:only.here' FROM pgcron.node"
        " WHERE name = 'berlin-2'",
    )

    found = await full_site.get("/nodes?handler=py:only.here")
    nothing = await full_site.get("/nodes?queue=nowhere")

    assert "berlin-2" in found.text
    assert "berlin-1" not in found.text
    assert "No living node matches" in nothing.text


async def test_the_page_of_a_node_shows_what_it_holds_and_offers(
    full_site: Site, full_database: str
) -> None:
    listing = await full_site.get("/nodes")
    (href,) = re.findall(r'href="(/nodes/[^"]+)"><bdi>berlin-1</bdi>', listing.text)

    page = await full_site.get(href)

    assert page.status_code == 200
    assert "py:etl.orders" in page.text.partition('id="runs"')[2]
    assert page.text.count("<code>py:") > 15
    assert "/queues/etl" in page.text


@pytest.mark.parametrize(
    ("path", "status", "hint"),
    [
        ("/nodes/berlin-1", 404, "berlin-1 (alive,"),
        ("/nodes/00000000-0000-0000-0000-000000000000", 404, "all nodes"),
        ("/nodes/%00", 404, "there is no page"),
        ("/nodes/%22%3E%3Cscript%3E", 404, "does not exist"),
        ("/nodes?state=aliv", 400, "Did you mean &#39;alive&#39;?"),
        ("/nodes?hander=x", 400, "Did you mean &#39;handler&#39;?"),
        ("/nodes?handler=%00", 400, ""),
    ],
)
async def test_what_does_not_exist_is_a_page_with_the_nearest(
    read_site: Site, path: str, status: int, hint: str
) -> None:
    page = await read_site.get(path)

    assert page.status_code == status
    assert hint in page.text


async def test_what_a_node_says_of_itself_harms_nothing(
    full_site: Site, full_database: str
) -> None:
    hostile = "\x1b[31m<script>alert(1)</script>\u202egnp"
    await execute(
        full_database,
        "UPDATE pgcron.node SET name = $1, host = $1, version = $1 WHERE name = 'berlin-1'",
        hostile,
    )

    page = await full_site.get("/nodes")

    assert page.status_code == 200
    assert "&lt;script&gt;alert(1)" in page.text
    assert "<script>alert" not in page.text
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text


async def test_a_node_is_cordoned_and_uncordoned_by_its_page(
    full_site: Site, full_database: str
) -> None:
    connection = await own_session(full_database)
    find = "SELECT incarnation::text FROM pgcron.node WHERE name = 'berlin-1'"
    page = f"/nodes/{await connection.fetchval(find)}"
    assert "Cordon</button>" in (await full_site.get(page)).text

    done = await full_site.post(f"{page}/cordon", note="a new <disk>")
    assert done.status_code == 303
    shown = (await full_site.get(done.headers["location"])).text
    assert "Cordoned: it takes nothing new" in shown
    assert "a new &lt;disk&gt;" in shown
    assert "Uncordon</button>" in shown
    assert "cordoned" in (await full_site.get("/nodes?state=cordoned")).text
    assert "Node berlin-1" in (await full_site.get("/")).text
    query = "SELECT set_by, note FROM pgcron.cordon"
    [(set_by, note)] = await connection.fetch(query)
    assert (bool(set_by), note) == (True, "a new <disk>")

    assert (await full_site.post(f"{page}/uncordon")).status_code == 303
    assert await connection.fetch(query) == []
    assert "Cordon</button>" in (await full_site.get(page)).text
    missing = "/nodes/00000000-0000-0000-0000-000000000000/cordon"
    assert (await full_site.post(missing)).status_code == 404
    await connection.close()


async def test_labels_of_nodes_are_shown(full_site: Site, full_database: str) -> None:
    labels = "UPDATE pgcron.node SET labels = $1 WHERE name = 'berlin-1'"
    await execute(full_database, labels, '{"gpu": "a100"}')

    text = (await full_site.get("/nodes")).text
    assert re.search(r"pid \d+</span> <span class=\"muted below\"><code>gpu=a100</code>", text)
