from __future__ import annotations

import re

from tests.cli.conftest import Cli, Execute


def put(cli: Cli, *words: str) -> None:
    assert cli("schedules", "put", "s", *words).code == 0


def test_versions_are_listed_compared_and_restored(cli: Cli, execute: Execute) -> None:
    put(cli, "0 3 * * *", "py:x")
    put(cli, "0 4 * * *", "py:x", "--args", '{"a": 1}', "--timeout", "10m")
    cli("schedules", "pause", "s", "--note", "holiday")

    rows = cli("schedules", "versions", "s", "--json").rows
    assert [(row["version"], row["operation"], row["interface"]) for row in rows] == [
        (3, "edit", "cli"),
        (2, "edit", "cli"),
        (1, "create", "cli"),
    ]
    assert [row["changed"] for row in rows] == [
        "enabled, paused_by, paused_note",
        "args, spec, timeout",
        None,
    ]
    table = cli("schedules", "versions", "s", "--limit", "2").out.splitlines()
    assert table[0].split() == ["VERSION", "AT", "BY", "INTERFACE", "WHAT", "CHANGED", "NOTE"]
    assert len(table) == 3
    assert "args, spec, timeout" in table[2]

    text = cli("schedules", "diff", "s", "1", "2").out
    assert text.startswith("--- version 1, 20")
    assert "spec\n- 0 3 * * *\n+ 0 4 * * *\n" in text
    assert "through cli" in text
    newest = cli("schedules", "diff", "s", "--json").rows
    assert {"column": "enabled", "before": True, "after": False} in newest
    assert "nothing differs" in cli("schedules", "diff", "s", "2", "2").out
    unknown = cli("schedules", "diff", "s", "7")
    assert (unknown.code, unknown.err.splitlines()[0]) == (
        1,
        "error: schedule 's' has no version 7",
    )

    restored = cli("schedules", "restore", "s", "1")
    assert restored.out == "schedule 's' has version 4: restored from version 1\n"
    assert execute("SELECT spec, enabled FROM pgcron.schedule") == [("0 3 * * *", False)]
    cli("schedules", "delete", "s")
    assert cli("schedules", "versions", "s", "--json").rows[0]["operation"] == "delete"
    (back,) = cli("schedules", "restore", "s", "2", "--json").rows
    assert "of deleted schedule" in back["note"]
    assert execute("SELECT spec, args FROM pgcron.schedule") == [("0 4 * * *", {"a": 1})]
    assert cli("schedules", "versions", "nobody").code == 1


def test_an_edit_that_would_be_lost_is_refused(cli: Cli, execute: Execute) -> None:
    put(cli, "0 3 * * *", "py:x", "--expect-version", "0")
    put(cli, "0 4 * * *", "py:x", "--expect-version", "1")

    late = cli("schedules", "put", "s", "0 5 * * *", "py:x", "--expect-version", "1")
    assert (late.code, late.out) == (1, "")
    assert late.err.startswith(
        "error: schedule 's' has version 2, not 1\ndetail: It was written by"
    )
    assert cli("schedules", "restore", "s", "1", "--expect-version", "1").code == 1
    assert execute("SELECT spec, version FROM pgcron.schedule") == [("0 4 * * *", 2)]


def test_who_edits_what_the_code_owns_is_warned_and_the_owner_stays(
    cli: Cli, execute: Execute
) -> None:
    put(cli, "0 3 * * *", "py:x", "--managed-by", "code")

    edited = cli("schedules", "put", "s", "0 4 * * *", "py:x")
    assert edited.code == 0
    assert edited.err.startswith(
        "warning: schedule 's' is managed by code, and was edited through cli\n"
        "  The next start of a node with that application puts it back"
    )
    assert cli("schedules", "pause", "s").err == ""
    taken = cli("schedules", "put", "s", "0 5 * * *", "py:x", "--managed-by", "cli")
    assert (taken.code, taken.err) == (0, "")
    assert execute("SELECT managed_by FROM pgcron.schedule") == [("cli",)]
    wrong = cli("schedules", "put", "s", "0 5 * * *", "py:x", "--managed-by", "me")
    assert wrong.err.startswith("error: managed_by 'me' is not known")


def test_a_ledger_is_verified_and_what_breaks_it_listed(cli: Cli, execute: Execute) -> None:
    put(cli, "* * * * *", "py:x")
    unseen = cli("schedules", "verify", "s")
    assert (unseen.code, unseen.err) == (0, "")
    assert unseen.out.startswith("0 schedules, 0 instants since ")
    assert unseen.out.endswith(": nothing to verify; no node has made a fire of them\n")
    execute(
        "UPDATE pgcron.cursor SET status = 'valid', since = now() - interval '10 minutes',"
        " watermark = date_trunc('minute', now()), next_fire = now() + interval '1 minute'"
    )
    execute("UPDATE pgcron.schedule_version SET since = now() - interval '10 minutes'")

    broken = cli("schedules", "verify", "--since", "8m")
    assert broken.code == 1
    assert broken.out.splitlines()[0].split("  ")[0] == "SCHEDULE"
    found = broken.out.count("an instant has no answer")
    assert found in (7, 8)  # a minute may begin meanwhile
    assert f"{found} break a rule" in broken.out.splitlines()[-1]
    *rows, summary = cli("schedules", "verify", "s", "--since", "2020-01-01T00:00Z", "--json").rows
    assert {row["rule"] for row in rows} == {"an instant has no answer"}
    assert summary["breaks"] == summary["instants"] == len(rows) == 10
    reported = [row for row in cli("doctor", "--json").rows if row["check"] == "ledger"]
    assert "an instant has no answer: schedule 's' at 20" in reported[0]["message"]

    execute(
        "INSERT INTO pgcron.missed (schedule_id, first_at, last_at, reason)"
        " SELECT id, now() - interval '1 hour', now(), 'catchup_none' FROM pgcron.schedule"
    )
    execute("UPDATE pgcron.cursor SET watermark = (SELECT max(m.last_at) FROM pgcron.missed m)")
    assert "each is accounted for, none twice" in cli("schedules", "verify").out
    cli("schedules", "pause", "s")
    assert re.match(r"1 schedule, [1-9]\d* instants? since", cli("schedules", "verify", "s").out)
    well = [row for row in cli("doctor", "--json").rows if row["check"] == "ledger"]
    assert [row["level"] for row in well] == ["ok"]
    assert cli("schedules", "verify", "nobody").code == 1
    assert cli("schedules", "verify", "--since", "yesterday").code == 1
