from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from pgcron_ha.errors import ConfigError
from tests.product.config import BY_KEY, SETTINGS, Settings, load_settings, read_sources, shown


@pytest.fixture(autouse=True)
def _empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(
    toml: str | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    if toml is not None:
        Path("pgcron-ha.toml").write_text(toml)
    return load_settings(read_sources(environment=environment or {}, flags=flags))


def refusal(
    toml: str | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(toml, environment, flags)
    return caught.value


def test_without_any_source_the_defaults_hold() -> None:
    settings = load()

    assert (settings.dsn, settings.schema) == (None, "pgcron")
    assert settings.node.queues == ("default",)
    assert settings.node.labels == {}
    assert (settings.node.slots, settings.node.lease_ttl, settings.node.grace) == (16, 15.0, 30.0)
    assert settings.node.horizon == 60
    assert settings.node.name
    assert settings.node.state_directory.is_absolute()


@pytest.mark.parametrize(
    ("toml", "variable", "flag"),
    [
        ('[node]\nlabels = {gpu = "a100", zone = "eu"}\n', "", None),
        (None, "gpu=a100, zone=eu", None),
        ('[node]\nlabels = {gpu = "none"}\n', "gpu=other", ["gpu=a100", "zone=eu"]),
    ],
)
def test_labels_are_a_table_a_line_or_several_flags(
    toml: str | None, variable: str, flag: object
) -> None:
    settings = load(toml, {"PGCRON_HA_NODE_LABELS": variable}, {"node.labels": flag})

    assert settings.node.labels == {"gpu": "a100", "zone": "eu"}


@pytest.mark.parametrize("labels", ["gpu", "gpu=a,gpu=b", "g u=a", "gpu=a b", "=a"])
def test_a_label_that_is_none_is_refused(labels: str) -> None:
    error = refusal(environment={"PGCRON_HA_NODE_LABELS": labels})

    assert "expected at most 64 labels, none twice, such as gpu=a100" in str(error)


def test_a_flag_beats_a_variable_and_a_variable_beats_the_file() -> None:
    toml = 'schema = "from_file"\n[node]\nslots = 2\nlease_ttl = "7s"\n'
    environment = {"PGCRON_HA_NODE_SLOTS": "3", "PGCRON_HA_SCHEMA": "from_variable"}

    settings = load(toml, environment, {"schema": "from_flag", "node.slots": None})

    assert settings.schema == "from_flag"
    assert settings.node.slots == 3
    assert settings.node.lease_ttl == 7.0


def test_the_state_directory_follows_the_users_convention(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert load().node.state_directory == tmp_path / "pgcron_ha" / "nodes"

    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert load().node.state_directory == Path.home() / ".local/state/pgcron_ha/nodes"


def test_an_empty_variable_is_not_given() -> None:
    assert load('schema = "from_file"', {"PGCRON_HA_SCHEMA": ""}).schema == "from_file"


def test_the_winning_value_remembers_where_it_came_from() -> None:
    Path("pgcron-ha.toml").write_text("[node]\nslots = 2\nprefetch = 5\n")

    sources = read_sources(environment={"PGCRON_HA_NODE_SLOTS": "3"}, flags={"dsn": "x"})

    origins = {key: value.origin for key, value in sources.values.items()}
    assert origins["node.slots"] == "environment"
    assert origins["node.prefetch"] == "pgcron-ha.toml"
    assert origins["dsn"] == "flag"
    assert origins["schema"] == "default"


def test_every_problem_is_reported_at_once() -> None:
    error = refusal(
        '[node]\nslots = 0\nslotz = 3\n[shell.backup]\nargs = ["x"]\n',
        {"PGCRON_HA_NODE_LEASE_TTL": "abc"},
        {"schema": "Has Blanks"},
    )

    assert error.message == "6 problems in the configuration"
    assert error.detail is not None
    assert "'node.slotz' (pgcron-ha.toml): unknown setting; did you mean 'node.slots'?" in (
        error.detail
    )
    assert "node.slots='0' (pgcron-ha.toml): expected a whole number from 1" in error.detail
    assert "PGCRON_HA_NODE_LEASE_TTL='abc' (environment): expected a duration" in error.detail
    assert "--schema='Has Blanks' (flag): expected 1 to 40 lower-case letters" in error.detail
    assert "shell.backup.args: unknown key; did you mean 'argv'?" in error.detail
    assert "shell.backup.argv: expected a list whose first string" in error.detail


@pytest.mark.parametrize(
    ("key", "raw", "words"),
    [
        ("node.apps", ["jobs"], "--app='jobs' (flag): expected module:attribute"),
        ("node.queues", ["a", "b c"], "--queue='a, b c' (flag): expected a name"),
        ("node.lease_ttl", "5", "--lease-ttl='5' (flag): expected a duration"),
        ("node.state_directory", "x", "--state-directory='x' (flag): expected"),
    ],
)
def test_a_flag_is_named_as_it_is_typed(key: str, raw: object, words: str) -> None:
    assert refusal(flags={key: raw}).message.startswith(words)


def test_what_a_shell_template_may_say_is_looked_up_where_it_stands() -> None:
    assert "pgcron-ha docs handlers" in str(refusal('[shell.backup]\nargv = "ls"\n').hint)


def test_a_single_problem_is_the_message_itself() -> None:
    error = refusal(environment={"PGCRON_HA_NODE_SLOTS": "many"})

    assert error.message.startswith("PGCRON_HA_NODE_SLOTS='many' (environment): expected")
    assert error.detail is None
    assert error.hint is not None


def test_a_variable_that_is_no_setting_is_refused_unless_others_set_it() -> None:
    error = refusal(environment={"PGCRON_HA_NODE_SLOT": "3"})
    assert "did you mean 'PGCRON_HA_NODE_SLOTS'?" in error.message
    error = refusal(environment={"PGCRON_HA_DNS": "x"})
    assert error.message.endswith("unknown setting; did you mean 'PGCRON_HA_DSN'?")
    assert refusal(environment={"PGCRON_HA_COLOUR": "x"}).message.endswith("unknown setting")

    # What an orchestrator sets for services called pgcron-ha and pgcron-ha-web; and others.
    for name in ("PORT", "SERVICE_HOST", "SERVICE_PORT_HTTP", "PORT_80_TCP_ADDR", "WEB_PORT"):
        load(environment={f"PGCRON_HA_{name}": "x"})
    load(environment={"PGCRON_HA_PG_BIN": "/usr/bin", "PGCRON_HA_TEST_DSN": "postgresql:///x"})


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml' can't be read"):
        read_sources(file=tmp_path / "missing.toml", environment={})


@pytest.mark.parametrize("content", [b"schema = ", b"\xff\xfe", b"a" * (1 << 20) + b"a"])
def test_a_file_that_is_not_toml_is_refused(content: bytes) -> None:
    Path("pgcron-ha.toml").write_bytes(content)

    with pytest.raises(ConfigError, match=r"pgcron-ha\.toml"):
        read_sources(environment={})


@pytest.mark.parametrize(
    "toml",
    [
        *("node = 5", "[dsn]\nurl = 'x'", "shell = 5", "http = [1]", "[http.x]\ny = 1"),
        *("[node.x]\ny = 1", "[shel.x]\ny = 1", "[ftp]\nx = 1", "[ftp]\na = {}\nb = 1"),
    ],
)
def test_a_table_of_the_wrong_shape_is_a_problem_and_not_a_crash(toml: str) -> None:
    assert refusal(toml).message


def test_tables_of_an_executor_we_do_not_have_are_kept_for_it() -> None:
    settings = load("[ftp.up]\nhost = 'a'\n[ftp.down]\n[node]\nexecutors = ['mail']\n")

    assert settings.plugins == {"ftp": {"up": {"host": "a"}, "down": {}}}
    assert settings.node.executors == ("mail",)


def test_a_password_is_never_shown() -> None:
    for dsn in ("postgresql://ann:s3cr@et@h/db", "ann:s3cret@h", "host=h password=s3cret"):
        assert "s3cr" not in shown(BY_KEY["dsn"], dsn)
        assert "et@" not in shown(BY_KEY["dsn"], dsn)
    assert "s3cret" not in repr(load(environment={"PGCRON_HA_DSN": "postgresql://a:s3cret@h/d"}))
    assert "s3cret" not in refusal(environment={"PGCRON_HA_DSN": "mysql://a:s3cret@h/d"}).message


def test_a_missing_dsn_says_where_to_give_one() -> None:
    with pytest.raises(ConfigError) as caught:
        load().required_dsn()

    assert "PGCRON_HA_DSN" in str(caught.value.hint)


def test_a_dsn_of_sqlalchemy_is_answered_with_what_goes() -> None:
    problem = refusal(environment={"PGCRON_HA_DSN": "postgresql+asyncpg://a@h/d"}).message

    assert problem.endswith("a URL such as postgresql://user@host:5432/database, without +asyncpg")


@pytest.mark.parametrize("name", ["pgcron", "_x", "a" * 40])
def test_a_schema_is_a_plain_identifier(name: str) -> None:
    assert load(flags={"schema": name}).schema == name


@pytest.mark.parametrize("name", ["", "pg_x", "Pgcron", "1a", 'a"b', "a.b", "ä", "a" * 41, "a\n"])
def test_another_schema_name_is_refused(name: str) -> None:
    assert "expected 1 to 40 lower-case" in refusal(flags={"schema": name}).message


def test_every_line_of_the_table_is_a_field_and_every_field_a_line() -> None:
    settings = load()
    fields = {"dsn", "schema", "password_from", "listen_dsn", "pooler"}
    for table in ("node", "log", "web", "ops", "audit", "secrets", "auth"):
        section = getattr(settings, table)
        fields |= {f"{table}.{field.name}" for field in dataclasses.fields(section)}

    assert [setting.key for setting in SETTINGS if setting.key not in fields] == []
    assert fields == {setting.key for setting in SETTINGS}


CLEAR = "a token is not sent in the clear"


@pytest.mark.parametrize(
    "web",
    [
        {"public_url": "http://jobs.example.com"},
        {"public_url": "http://10.0.0.7:8421"},
        {"callbacks": "0.0.0.0:8421"},
        {"callbacks": "[::]:8421", "public_url": "http://127.0.0.1:8421"},
    ],
)
def test_tokens_of_callbacks_are_not_sent_in_the_clear(web: dict[str, str]) -> None:
    flags = {f"web.{key}": value for key, value in web.items()}
    assert CLEAR in str(refusal(flags=flags))
    assert load(flags={**flags, "web.allow_private": "true"}).web.allow_private


@pytest.mark.parametrize(
    "web",
    [
        {"public_url": "https://jobs.example.com", "callbacks": "0.0.0.0:8421"},
        {"public_url": "http://localhost:8421", "callbacks": "127.0.0.1:8421"},
        {"public_url": "http://[::1]:8421", "callbacks": "[::1]:8421"},
    ],
)
def test_what_nobody_else_can_read_may_be_plain(web: dict[str, str]) -> None:
    flags = {f"web.{key}": value for key, value in web.items()}
    assert str(load(flags=flags).web.callbacks or "") == web.get("callbacks", "")
