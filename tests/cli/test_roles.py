from __future__ import annotations

import re
from collections.abc import Callable

from tests.cli.conftest import Cli

Execute = Callable[..., object]


def test_roles_are_granted_listed_and_revoked(cli: Cli, execute: Execute) -> None:
    assert cli("roles", "list").out == "no roles\n"
    said = cli("roles", "grant", "operator", "--group", "billing", "--team", "billing")
    assert said.out == "group 'billing' has the role operator for team billing\n"
    cli("roles", "grant", "admin", "--user", "ann")
    cli("roles", "grant", "editor", "--user", "ann", "--queue", "mail-*")
    listed = cli("roles", "list", "--json").rows
    assert [(row["subject"], row["role"], row["scope_kind"], row["scope"]) for row in listed] == [
        ("billing", "operator", "team", "billing"),
        ("ann", "admin", "all", "*"),
        ("ann", "editor", "queue", "mail-*"),
    ]
    assert "everything" in cli("roles", "list", "ann").out
    cli("tokens", "create", "deploy", "--role", "operator")
    cli("tokens", "create", "over")
    execute(
        "UPDATE pgcron.api_token SET created_at = now() - interval '2 days',"
        " expires_at = now() WHERE name = 'over'"
    )
    tokens = [row["who"] for row in cli("roles", "list", "--json").rows if "token" in row["who"]]
    assert len(tokens) == 1
    assert re.fullmatch(r"token \w{8} deploy", tokens[0])
    gone = ("roles", "revoke", "editor", "--user", "ann", "--queue", "mail-*")
    assert cli(*gone).out == "user 'ann' no longer has the role editor for queue mail-*\n"
    assert cli(*gone).out == "user 'ann' did not have the role editor for queue mail-*\n"
    assert len(cli("roles", "list", "ann", "--json").rows) == 1


def test_a_grant_names_one_subject_and_one_scope(cli: Cli) -> None:
    wrong = "name one --user or one --group, and one scope at most"
    assert wrong in cli("roles", "grant", "viewer").err
    assert wrong in cli("roles", "grant", "viewer", "--user", "ann", "--group", "all").err
    both = ("--queue", "mail", "--tag", "eu")
    assert wrong in cli("roles", "grant", "viewer", "--user", "ann", *both).err
    assert cli("roles", "list").out == "no roles\n"


def test_a_scope_that_can_hold_nothing_is_refused(cli: Cli) -> None:
    for words in (("--queue", "a*b"), ("--handler", "shell"), ("--team", "")):
        refused = cli("roles", "grant", "viewer", "--user", "ann", *words)
        assert (refused.code, "is not a scope" in refused.err) == (1, True), words
    for scope in ("mail", "foo:mail", "queue:"):
        refused = cli("tokens", "create", "deploy", "--scope", scope)
        assert refused.code == 1
        assert f"'{scope.rstrip(':')}' is not a scope" in refused.err
        assert "A scope is KIND:NAME" in refused.err
    assert cli("roles", "list").out == "no roles\n"
    assert cli("tokens", "list").out == "no tokens\n"


def test_what_a_grant_names_may_come_later_which_is_said(cli: Cli) -> None:
    said = cli("roles", "grant", "operator", "--user", "ghost", "--team", "billing")
    assert said.code == 0
    assert "there is no user 'ghost' yet" in said.err
    assert "team 'billing' owns nothing yet" in said.err
    added = cli("users", "add", "ghost", "--no-password").out
    assert added == "user 'ghost' is added, operator of team billing\n"
    cli("roles", "team", "queue", "mail", "billing")
    assert cli("roles", "grant", "viewer", "--user", "ghost", "--team", "billing").err == ""
    assert cli("roles", "grant", "viewer", "--user", "ghost", "--team", "bil*").err == ""


def test_a_token_is_not_broader_than_its_owner(cli: Cli) -> None:
    cli("users", "add", "bea", "--no-password")
    cli("roles", "grant", "operator", "--user", "bea", "--team", "billing")

    for words in ((), ("--role", "admin", "--scope", "team:billing"), ("--scope", "team:bil*")):
        refused = cli("tokens", "create", "deploy", "--owner", "bea", *words)
        assert refused.code == 1
        assert "is more than user 'bea' has" in refused.err
        assert "who has: operator of team:billing." in refused.err
    assert cli("tokens", "list").out == "no tokens\n"
    assert cli("tokens", "create", "x", "--owner", "bea", "--scope", "team:billing").code == 0


def test_what_does_not_exist_is_named(cli: Cli) -> None:
    cli("users", "add", "ann", "--no-password")
    for words, fact in {
        ("users", "revoke", "ann", "--session", "nope"): "session 'nope' of user 'ann' does not",
        ("roles", "team", "calendar", "nosuch", "billing"): "calendar 'nosuch' does not exist",
        ("roles", "team", "producer", "nosuch", "billing"): "producer 'nosuch' does not exist",
        ("roles", "team", "queue", "two words", "billing"): "'two words' is not a queue name",
        ("erase", "--run", "999999"): "none of these runs exists",
    }.items():
        refused = cli(*words)
        assert (refused.code, fact in refused.err) == (1, True), refused
    assert cli("roles", "team", "calendar", "nosuch").code == 0, "what is left of it can be taken"
    assert cli("users", "sessions", "ghost").out == "not logged in: 'ghost'\n"


def test_what_teams_own_is_listed(cli: Cli, execute: Execute, role: str) -> None:
    execute("SELECT pgcron.confine_producer(%s)", role)
    assert cli("roles", "team", "queue", "mail", "billing").out == (
        "queue 'mail' belongs to team 'billing'\n"
    )
    cli("roles", "team", "producer", role, "shops")
    rows = cli("roles", "teams", "--json").rows
    assert [(row["team"], row["kind"], row["name"]) for row in rows] == [
        ("billing", "queue", "mail"),
        ("shops", "producer", role),
    ]
    assert cli("roles", "team", "queue", "mail").out == "queue 'mail' belongs to no team\n"
    assert cli("roles", "teams", "billing").out == "nothing belongs to team 'billing'\n"


def test_what_was_given_is_in_the_audit(cli: Cli, execute: Execute) -> None:
    cli("roles", "grant", "viewer", "--user", "ann", "--tag", "eu")
    cli("roles", "revoke", "viewer", "--user", "ann", "--tag", "eu")
    cli("roles", "team", "key", "customer-*", "billing")
    kept = execute("SELECT verb, kind, name, coalesce(before, after) FROM pgcron.audit ORDER BY id")
    assert kept == [
        ("grant", "role", "user ann", {"role": "viewer", "scope_kind": "tag", "scope": "eu"}),
        ("revoke", "role", "user ann", {"role": "viewer", "scope_kind": "tag", "scope": "eu"}),
        ("give", "key", "customer-*", {"team": "billing"}),
    ]
