"""Secret args and results: encrypted in the database, masked in all that a run writes."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pgcron_ha import chain, errors, map_each
from tests.e2e.ledger import Connection, dumped, ended
from tests.e2e.nodes import Cluster
from tests.e2e.secret_handlers import made
from tests.product.config import secret_references, use_keys
from tests.waiting import until

APP = "tests.e2e.secret_handlers:app"
CARD = "4929 1234+5678/9012"
PIN = 73519264
FORMS = (CARD, CARD[:12], quote(CARD), base64.b64encode(CARD.encode()).decode(), str(PIN))


def key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


@pytest.fixture
def keys(cluster: Cluster, tmp_path: Path) -> Iterator[Path]:
    """A file with the key of nodes, commands and this process; another beside it."""
    file = tmp_path / "key"
    file.write_text(key())
    file.with_name("new").write_text(key())
    cluster.variables["PGCRON_HA_SECRETS_KEYS"] = f"file:{file}"
    use_keys(secret_references(f"file:{file}"))
    yield file
    use_keys(())


@pytest.fixture
async def shop(database: str, keys: Path) -> AsyncIterator[Any]:
    """The application as a program uses it, on the test's database."""
    async with made(database) as app:
        yield app


def has_none(text: str) -> bool:
    return not [form for form in FORMS if form in text]


async def test_a_secret_is_in_no_row_line_or_answer(
    cluster: Cluster, connection: Connection, shop: Any
) -> None:
    node = cluster.start("a", app=APP)
    args = {"card": CARD}
    runs = [
        await shop.enqueue("charge", {**args, "day": "monday"}),
        await shop.enqueue("charge_plainly", {**args, "pin": PIN}),
        await shop.enqueue("fail_to_charge", args),
        await shop.enqueue("charge_apart", args),
        await shop.enqueue("charge_apart", {**args, "fails": True}),
        *await shop.enqueue_many(
            [{"handler": "charge", "args": {"card": f"{CARD}{n}"}} for n in range(3)]
        ),
    ]
    rows = {row["id"]: row for row in await ended(connection, *runs, deadline=60)}
    by_sql = shop.encrypt_args("charge", args)
    runs.append(
        await connection.fetchval(
            "SELECT pgcron.enqueue('py:charge', $1::jsonb)", json.dumps(by_sql)
        )
    )
    await ended(connection, runs[-1])

    outcomes = [rows[run]["outcome"] for run in runs[:-1]]
    assert outcomes == ["succeeded", "succeeded", "dead", "succeeded", "dead", *["succeeded"] * 3]
    assert await shop.result(runs[0]) == {"receipt": f"paid with {CARD} on monday"}
    assert await shop.result(runs[3]) == f"paid with {CARD}"
    assert await shop.result(runs[-1]) == {"receipt": f"paid with {CARD} on "}
    assert await shop.result(runs[1]) == {"paid": "with ***", "pin": "***", "length": len(CARD)}
    assert "*** was refused" in rows[runs[2]]["error"]
    assert "*** was refused" in rows[runs[4]]["error"]
    everything = await dumped(connection)
    assert everything.count("the card is ***") == len(runs)
    assert has_none(everything)
    shown = [cluster.command("runs", "show", str(run)).stdout for run in runs]
    shown += [cluster.command("runs", "show", str(run), "--json").stdout for run in runs]
    shown += [cluster.command("runs", "logs", str(run)).stdout for run in runs]
    shown += [cluster.command("dead", "list", "--json").stdout]
    assert has_none("".join(shown))
    assert has_none(node.output())
    assert "$secret" not in "".join(shown)
    assert "••• (secret)" in shown[0]
    assert {"args": {"card": "••• (secret)", "day": "monday"}}.items() <= json.loads(
        shown[len(runs)]
    ).items()


async def test_a_secret_is_masked_in_the_progress_of_a_run(
    cluster: Cluster, connection: Connection, shop: Any, tmp_path: Path
) -> None:
    cluster.start("a", app=APP)
    path = tmp_path / "go on"
    run = await shop.enqueue("charge_slowly", {"card": CARD, "path": str(path)})
    note = "SELECT note FROM pgcron.progress WHERE run_id = $1"
    shown = await until("it has reported", lambda: connection.fetchval(note, run))
    path.touch()
    await ended(connection, run)

    assert shown == "paid with ***"


async def test_what_is_not_encrypted_or_for_another_is_refused(
    cluster: Cluster, connection: Connection, shop: Any
) -> None:
    cluster.start("a", app=APP)
    for_other = shop.encrypt_args("charge_plainly", {"card": CARD})
    changed = shop.encrypt_args("charge", {"card": CARD})
    changed["card"]["$secret"]["data"] = for_other["card"]["$secret"]["data"]
    unknown = {"card": {"$secret": {**for_other["card"]["$secret"], "key": "00000000"}}}
    statement = "SELECT pgcron.enqueue('py:charge', $1::jsonb, max_attempts => 1)"
    runs = [
        await connection.fetchval(statement, json.dumps(args))
        for args in ({"card": "plain"}, for_other, changed, unknown, {"card": {"$secret": 5}})
    ]

    rows = await ended(connection, *runs)

    assert {row["outcome"] for row in rows} == {"dead"}
    errors_of = [row["error"] for row in rows]
    assert errors_of[0].endswith("marked secret by its handler and is not encrypted")
    assert "can't be decrypted" in errors_of[1]
    assert "can't be decrypted" in errors_of[2]
    assert "key 00000000, which is not known here" in errors_of[3]
    assert "which is not known here" in errors_of[4]
    with pytest.raises(errors.InvalidInput) as refused:
        await shop.enqueue("charge", {"card": {"number": CARD}})
    assert CARD not in f"{refused.value} {refused.value.detail} {refused.value.hint}"


async def test_keys_are_rotated(
    cluster: Cluster, connection: Connection, shop: Any, keys: Path
) -> None:
    args = {"card": CARD}
    waiting = await shop.enqueue("charge", args)
    await connection.execute(
        "SELECT pgcron.put_schedule('pay', '0 3 1 1 *', 'py:charge', args => $1::jsonb)",
        json.dumps(shop.encrypt_args("charge", args)),
    )
    both = f"file:{keys.with_name('new')},file:{keys}"
    cluster.variables["PGCRON_HA_SECRETS_KEYS"] = both
    old = (await shop.run(waiting)).handler, await dumped(connection)

    rotated = cluster.command("secrets", "rotate", "--json")

    assert rotated.returncode == 0, rotated.stderr
    assert [json.loads(line) for line in rotated.stdout.splitlines()] == [
        {"kind": "schedule", "rotated": 1, "left": 0},
        {"kind": "run", "rotated": 1, "left": 0},
        {"kind": "dead letter", "rotated": 0, "left": 0},
    ]
    assert await dumped(connection) != old[1]
    again = cluster.command("secrets", "rotate", "--json")
    assert all(json.loads(line)["rotated"] == 0 for line in again.stdout.splitlines())
    # the old key is needed no more
    cluster.variables["PGCRON_HA_SECRETS_KEYS"] = f"file:{keys.with_name('new')}"
    cluster.start("a", app=APP)
    fired = await connection.fetchval("SELECT pgcron.run_now('pay')")
    rows = await ended(connection, waiting, fired)
    assert [row["outcome"] for row in rows] == ["succeeded"] * 2
    with pytest.raises(errors.ConfigError, match="is not known here"):
        await shop.result(waiting)


async def test_values_are_encrypted_and_shown_on_the_command_line(
    cluster: Cluster, connection: Connection, shop: Any, keys: Path
) -> None:
    run = await shop.enqueue("charge", {"card": CARD})
    encrypted = shop.encrypt_args("charge", {"card": CARD})
    cluster.variables["PGCRON_HA_SECRETS_KEYS"] = "env:NO_SUCH_VARIABLE"
    refused = cluster.command("secrets", "reveal", str(run))
    assert refused.returncode == 1
    assert "NO_SUCH_VARIABLE" in refused.stderr

    cluster.variables["PGCRON_HA_SECRETS_KEYS"] = f"file:{keys}"
    shown = cluster.command("secrets", "reveal", str(run), "--json")

    assert json.loads(shown.stdout) == {"run_id": run, "values": {"card": CARD}}
    audited = await connection.fetch("SELECT verb, kind, name FROM pgcron.audit ORDER BY id")
    assert ("reveal", "run", str(run)) in [tuple(row) for row in audited]
    assert has_none(await dumped(connection))
    assert encrypted["card"] != shop.encrypt_args("charge", {"card": CARD})["card"]
    assert cluster.command("secrets", "reveal", "999").returncode == 1


async def test_what_a_rotation_does_not_reach_counts_as_left(
    cluster: Cluster, connection: Connection, shop: Any, keys: Path, tmp_path: Path
) -> None:
    args = json.dumps(shop.encrypt_args("charge", {"card": CARD}))
    for statement in (
        "put_schedule('pay', '0 3 1 1 *', 'py:charge', args => $1::jsonb)",
        "edit_occurrence('pay', '2097-01-01 03:00Z', $1::jsonb)",
    ):
        await connection.execute(f"SELECT pgcron.{statement}", args)
    backfill = await connection.fetchval(
        "SELECT pgcron.backfill('pay', '2020-01-01', '2021-01-02')"
    )
    await connection.execute("SELECT pgcron.pause_backfill($1)", backfill)
    cluster.start("a", app=APP)
    path = tmp_path / "go on"
    run = await shop.enqueue("charge_slowly", {"card": CARD, "path": str(path)})
    runs = "SELECT true FROM pgcron.run WHERE id = $1 AND state = 'running'"
    await until("it runs", lambda: connection.fetchval(runs, run))
    both = f"file:{keys.with_name('new')},file:{keys}"
    cluster.variables["PGCRON_HA_SECRETS_KEYS"] = both

    rotated = cluster.command("secrets", "rotate", "--json")

    path.touch()
    await ended(connection, run)
    assert [json.loads(line) for line in rotated.stdout.splitlines()] == [
        {"kind": "backfill", "rotated": 0, "left": 1},
        {"kind": "edited fire", "rotated": 0, "left": 1},
        {"kind": "schedule", "rotated": 1, "left": 0},
        {"kind": "run", "rotated": 0, "left": 1},
        {"kind": "dead letter", "rotated": 0, "left": 0},
    ]
    assert rotated.returncode == 1
    assert "3 could not be encrypted again" in rotated.stderr


async def test_a_node_with_secret_handlers_needs_a_key(cluster: Cluster, keys: Path) -> None:
    keys.write_text("no key")
    node = cluster.spawn("a", app=APP)

    assert node.exit_code() == 1
    assert "32 random bytes in base64" in node.output()
    assert "no key" not in node.output().replace("'no key'", "")


async def test_a_schedule_in_code_is_not_written_again_at_each_start(
    connection: Connection, shop: Any
) -> None:
    shop.add_schedule("pay", "0 3 1 1 *", "py:charge", args={"card": CARD})
    for _ in range(3):
        await shop.put_schedules()

    assert await connection.fetchval("SELECT version FROM pgcron.schedule") == 1
    assert has_none(await dumped(connection))


async def test_the_process_of_an_isolated_handler_has_no_key(
    cluster: Cluster, connection: Connection, shop: Any, keys: Path
) -> None:
    cluster.variables |= {"PGCRON_HA_SECRETS_KEYS": "env:SHOP_KEY", "SHOP_KEY": keys.read_text()}
    cluster.variables |= {"SHOP_COLOUR": "blue"}
    cluster.start("a", app=APP)
    runs = [await shop.enqueue("environment"), await shop.enqueue("charge_apart", {"card": CARD})]

    await ended(connection, *runs)

    names = await shop.result(runs[0])
    assert "SHOP_COLOUR" in names
    assert "SHOP_KEY" not in names
    assert await shop.result(runs[1]) == f"paid with {CARD}"


async def test_secrets_reach_the_steps_of_workflows(
    cluster: Cluster, connection: Connection, shop: Any
) -> None:
    await shop.put_workflows()
    cluster.start("a", app=APP)
    part = {"handler": "charge", "args": {"card": CARD}}
    flows = [
        await shop.start(chain(part, part)),
        await shop.start(map_each("refund", [CARD, f"{CARD}2"])),
        await shop.start("pay", shop.encrypt_args("charge", {"card": CARD})),
    ]

    rows = await ended(connection, *flows)

    assert [row["outcome"] for row in rows] == ["succeeded"] * 3
    assert has_none(await dumped(connection))
