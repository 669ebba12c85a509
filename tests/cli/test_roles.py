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


def test_what_teams_own_is_listed(cli: Cli) -> None:
    assert cli("roles", "team", "queue", "mail", "billing").out == (
        "queue 'mail' belongs to team 'billing'\n"
    )
    cli("roles", "team", "producer", "shop", "shops")
    rows = cli("roles", "teams", "--json").rows
    assert [(row["team"], row["kind"], row["name"]) for row in rows] == [
        ("billing", "queue", "mail"),
        ("shops", "producer", "shop"),
    ]
    assert cli("roles", "team", "queue", "mail").out == "queue 'mail' belongs to no team\n"
    assert cli("roles", "teams", "billing").out == "nothing belongs to a team\n"


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
