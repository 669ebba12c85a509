from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from inspect import iscoroutinefunction
from pathlib import Path

import click
import pytest

from pgcron_ha.errors import Conflict
from tests.golden.record import commands
from tests.product.cli import COMMANDS, CommandContext, cli, command_context, main
from tests.product.cli import main_module as main_module
from tests.waiting import COMMAND_SECONDS


@click.command("probe")
@click.option("--json", "as_json", is_flag=True)
def probe_command(as_json: bool) -> None:
    settings = command_context().load()
    click.echo(json.dumps([settings.dsn, settings.schema, as_json]))


@click.command("refuse")
@click.option("--json", "as_json", is_flag=True)
def refuse_command(as_json: bool) -> None:
    raise Conflict("run 7 has ended", "only a live run can be cancelled", "`runs show 7` tells how")


@click.command("interrupt")
def interrupt_command() -> None:
    raise KeyboardInterrupt


@click.command("seven")
def seven_command() -> int:
    return 7


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGCRON_HA_DSN", raising=False)


@pytest.fixture
def add_command(monkeypatch: pytest.MonkeyPatch) -> Callable[[click.Command], None]:
    """Puts a command of this file into the table; it is found like any other, by its place."""

    def add(command: click.Command) -> None:
        name = str(command.name)
        place = (f"command_of_a_test:{name}", "A command of a test.")
        monkeypatch.setitem(COMMANDS, name, place)
        module = type(sys)("pgcron_ha.cli.command_of_a_test")
        setattr(module, name, command)
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return add


Add = Callable[[click.Command], None]
Output = pytest.CaptureFixture[str]


def test_the_version_is_printed(capsys: Output) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("pgcron-ha ")


def test_help_names_every_command_and_imports_none() -> None:
    code = (
        "import sys; from pgcron_ha.cli.main import main; main(['--help']);"
        "print([m for m in sys.modules if m.startswith('pgcron_ha.')], file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=COMMAND_SECONDS,
        cwd=Path(main_module.__file__).parents[2],
    )

    assert [name for name in COMMANDS if f"\n  {name}  " not in run.stdout] == []
    modules = {place.partition(":")[0] for place, _ in COMMANDS.values()}
    assert [m for m in modules if f"'pgcron_ha.cli.{m}'" in run.stderr] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_is_there_under_its_name_and_explains_itself(
    name: str, capsys: Output
) -> None:
    command = cli.get_command(click.Context(cli), name)

    assert command is not None
    assert command.name == name
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out


def test_no_command_is_a_coroutine_that_nobody_would_run() -> None:
    """A `JsonCommand` gives an async function a session; click alone would wait for nothing."""
    callbacks = {" ".join(words): command.callback for words, command in commands()}

    assert len(callbacks) > len(COMMANDS)
    assert [words for words, each in callbacks.items() if iscoroutinefunction(each)] == []


@pytest.mark.parametrize(
    "words", [words for words, each in commands() if isinstance(each, click.Group)]
)
def test_the_help_of_a_group_breaks_off_no_sentence(words: tuple[str, ...], capsys: Output) -> None:
    assert main([*words[1:], "--help"]) == 0
    assert not [line for line in capsys.readouterr().out.splitlines()[1:] if "..." in line]


def test_options_of_one_meaning_have_one_name() -> None:
    """How many rows are listed is --limit, a zone --timezone or --tz, why something is done --note;
    what may be given several times says so.
    """
    options = [each for _, command in commands() for each in command.params]
    wrong = [
        (each.opts, each.help)
        for each in options
        if isinstance(each, click.Option)
        if each.help is None
        or set(each.opts) & {"--count", "--cap", "--most", "--reason", "--why"}
        or ("--timezone" in each.opts) != ("--tz" in each.opts)
        or ("--note" in each.opts) != each.help.startswith("Why")
        or each.multiple != each.help.endswith("; may be repeated.")
    ]

    assert wrong == []


def test_a_run_is_named_by_its_number(capsys: Output) -> None:
    assert main(["runs", "show", "x"]) == 2
    assert "'x' is not a valid run id" in capsys.readouterr().err


def test_an_unknown_command_is_wrong_usage_and_names_the_nearest(capsys: Output) -> None:
    assert main(["shedules"]) == 2
    assert "No such command 'shedules'. Did you mean 'schedules'?" in capsys.readouterr().err


def test_no_command_at_all_is_wrong_usage_and_shows_the_help(capsys: Output) -> None:
    assert main([]) == 2
    assert "Commands:" in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("command", "required"),
    [
        ("schedules edit-occurrence nightly 18:30", "--args"),
        ("schedules backfill nightly", "--since"),
        ("schedules import pg_cron", "--from-dsn"),
    ],
)
def test_an_option_that_is_required_is_asked_for(
    command: str, required: str, capsys: Output
) -> None:
    assert main(command.split()) == 2
    assert f"Missing option '{required}'" in capsys.readouterr().err


def test_an_unknown_option_is_wrong_usage(capsys: Output) -> None:
    assert main(["--no-such-option"]) == 2
    assert "--no-such-option" in capsys.readouterr().err


def test_an_error_is_told_in_three_sentences_on_stderr(add_command: Add, capsys: Output) -> None:
    add_command(refuse_command)

    assert main(["refuse"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        "error: run 7 has ended",
        "detail: only a live run can be cancelled",
        "hint: `runs show 7` tells how",
    ]


def test_with_json_an_error_is_one_object(add_command: Add, capsys: Output) -> None:
    add_command(refuse_command)

    assert main(["refuse", "--json"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["error"]["message"] == "run 7 has ended"


def test_ctrl_c_ends_with_130(add_command: Add, capsys: Output) -> None:
    add_command(interrupt_command)

    assert main(["interrupt"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_command_may_return_its_exit_code(add_command: Add) -> None:
    add_command(seven_command)

    assert main(["seven"]) == 7


def test_global_options_reach_the_settings_of_a_command(add_command: Add, capsys: Output) -> None:
    add_command(probe_command)
    Path("other.toml").write_text('schema = "from_file"\ndsn = "postgresql://file/x"\n')

    assert main(["--config", "other.toml", "--dsn", "postgres://flag/x", "probe", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ["postgres://flag/x", "from_file", True]


def test_a_wrong_setting_is_an_error_and_not_a_traceback(add_command: Add, capsys: Output) -> None:
    add_command(probe_command)

    assert main(["--schema", "No Schema", "probe"]) == 1
    assert capsys.readouterr().err.startswith("error: --schema='No Schema' (flag): expected")


def test_a_flag_of_a_command_stands_above_the_global_ones() -> None:
    context = CommandContext(None, {"schema": "one"})

    assert context.load({"schema": "two", "node.slots": 4}).schema == "two"
    assert context.load({"schema": None}).schema == "one"


def test_config_shows_each_setting_with_its_origin(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCRON_HA_NODE_SLOTS", "5")
    Path("pgcron-ha.toml").write_text(
        'dsn = "postgresql://ann:secret@h/d"\n[shell.disk]\nargv = ["df"]\n'
    )

    assert main(["config"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'dsn = "postgresql://ann:***@h/d"  # pgcron-ha.toml' in lines
    assert 'node.slots = "5"  # environment' in lines
    assert 'schema = "pgcron"  # default' in lines
    assert "[shell.disk]  # pgcron-ha.toml" in lines


def test_config_explain_says_what_each_setting_means(capsys: Output) -> None:
    assert main(["config", "--explain"]) == 0
    output = capsys.readouterr().out
    assert "How many runs may execute here at once." in output
    assert "default 16, variable PGCRON_HA_NODE_SLOTS" in output


def test_config_json_is_one_object_a_line(capsys: Output) -> None:
    assert main(["config", "--json"]) == 0
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    slots = next(setting for setting in objects if setting["key"] == "node.slots")
    assert (slots["value"], slots["origin"], slots["variable"]) == (
        16,
        "default",
        "PGCRON_HA_NODE_SLOTS",
    )


def test_config_prints_the_dsn_for_programs_too(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = "postgresql://ann:secret@h/d"
    monkeypatch.setenv("PGCRON_HA_DSN", dsn)

    assert main(["config", "--print-dsn", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"dsn": dsn}


def test_config_shows_a_wrong_value_before_it_fails(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCRON_HA_NODE_SLOTS", "many")

    assert main(["config"]) == 1
    output = capsys.readouterr()
    assert 'node.slots = "many"  # environment' in output.out
    assert "PGCRON_HA_NODE_SLOTS='many' (environment)" in output.err


@pytest.mark.parametrize("words", [["probe", "--schema", "jobs"], ["--schema", "jobs", "probe"]])
def test_a_global_option_stands_before_or_after_the_command(
    add_command: Add, capsys: Output, words: list[str]
) -> None:
    add_command(probe_command)

    assert main(["--dsn", "postgresql://host/db", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ["postgresql://host/db", "jobs", True]


def test_the_last_one_of_a_global_option_counts(add_command: Add, capsys: Output) -> None:
    add_command(probe_command)

    assert main(["--schema", "one", "probe", "--schema", "two"]) == 0
    assert json.loads(capsys.readouterr().out)[1] == "two"


@pytest.mark.parametrize(
    "words",
    [
        ["nodes", "--dsn", "postgresql://me:secret@h/d"],
        ["runs", "show", "1", "--dsn", "postgresql://me:secret@h/d"],
    ],
)
def test_a_password_is_refused_after_the_command_too(words: list[str], capsys: Output) -> None:
    assert main(words) == 1
    assert "--dsn has a password" in capsys.readouterr().err


def test_bash_completes_commands_by_the_script_that_is_printed(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["completion", "bash"]) == 0
    assert "complete -o nosort -F _pgcron_ha_completion pgcron-ha" in capsys.readouterr().out

    monkeypatch.setenv("_PGCRON_HA_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "pgcron-ha runs ca")
    monkeypatch.setenv("COMP_CWORD", "2")
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out == "plain,cancel\n"
