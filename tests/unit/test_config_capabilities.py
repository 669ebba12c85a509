from __future__ import annotations

import tomllib

import pytest

from tests.product.config import DEFAULT_PATTERN, ShellTemplate, compile_pattern, read_tables

BACKUP = """
[backup]
argv = ["/usr/local/bin/backup", "--db", "{db}", "--label={label}"]
placeholders = { db = "[a-z_]{1,63}", label = true }
timeout = "30m"
user = "backup"
environment = ["LANG", "TZ"]
working_directory = "/var/backups"
grace = "5s"
on_lease_loss = "finish"
keep_args = false
stdin = "args"
limits = { cpu = "10m", memory = "2GiB", file_size = "512MiB", open_files = 256, processes = 64 }
"""


def problems_of(toml: str) -> str:
    templates, problems = read_tables("shell", tomllib.loads(toml), ShellTemplate)
    assert templates == {}
    return "\n".join(problems)


def test_a_whole_template_is_read() -> None:
    templates, problems = read_tables("shell", tomllib.loads(BACKUP), ShellTemplate)

    assert problems == []
    assert templates["backup"] == ShellTemplate(
        name="backup",
        argv=("/usr/local/bin/backup", "--db", "{db}", "--label={label}"),
        placeholders={"db": "[a-z_]{1,63}", "label": DEFAULT_PATTERN},
        timeout=1800.0,
        user="backup",
        environment=("LANG", "TZ"),
        working_directory="/var/backups",
        grace=5.0,
        on_lease_loss="finish",
        keep_args=False,
        stdin="args",
        limits={
            "cpu": 600,
            "memory": 2 << 30,
            "file_size": 512 << 20,
            "open_files": 256,
            "processes": 64,
        },
    )


def test_only_argv_must_be_given() -> None:
    templates, problems = read_tables(
        "shell", {"vacuum": {"argv": ["/usr/bin/vacuumdb"]}}, ShellTemplate
    )

    assert problems == []
    assert (templates["vacuum"].timeout, templates["vacuum"].grace) == (None, 10.0)


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ("[a]", "shell.a.argv: expected a list whose first string is the program"),
        ('[a]\nargv = "ls -l"', "shell.a.argv: expected a list whose first string"),
        ("[a]\nargv = ['ls', 1]", "shell.a.argv: expected a list of strings"),
        ("[a]\nargv = ['']", "whose first string is the program"),
        ("[a]\nargv = ['ls', '{path}']", "'{path}' is not declared in placeholders"),
        ("[a]\nargv = ['{p}']\nplaceholders = {p = '.'}", "the program itself can't come"),
        ("[a]\nargv = ['ls']\nplaceholders = {p = '['}", "'[' is no regular expression"),
        ("[a]\nargv = ['ls']\nplaceholders = {p = '(a)b\\1'}", "no backreferences"),
        ("[a]\nargv = ['ls']\nplaceholders = {p = '(?!-)[a-z-]+'}", "no look-around"),
        ("[a]\nargv = ['ls']\nplaceholders = {p = '[a-z]{1,4096}'}", "more than 1,000 times"),
        ("[a]\nargv = ['ls']\nplaceholders = {p = 5}", "expected a regular expression, or true"),
        ("[a]\nargv = ['ls']\nplaceholders = {P = '.'}", "expected a name of lower-case"),
        (
            "[a]\nargv = ['ls']\nretry_on = 75",
            "shell.a.retry_on: '75': expected a list of exit statuses",
        ),
        ("[a]\nargv = ['ls']\nsnooze_on = [0]", "expected a list of exit statuses from 1 to 255"),
        ("[a]\nargv = ['ls']\ndiscard_on = [true]", "expected a list of exit statuses"),
        ("[a]\nargv = ['ls']\ndiscard_on = [2]\nsnooze_on = [2]", "2 is in two of retry_on"),
        ("[a]\nargv = ['ls']\nsnooze = 5", "shell.a.snooze: '5': expected a duration"),
        ("[a]\nargv = ['ls']\nplaceholders = ['p']", "expected a table such as"),
        ("[a]\nargv = ['ls']\ntimeout = 30", "shell.a.timeout: '30': expected a duration"),
        ("[a]\nargv = ['ls']\ntimeout = '0s'", "'0s': expected a duration from 1ms to 7d"),
        ("[a]\nargv = ['ls']\nuser = 0", "shell.a.user: '0': expected a string"),
        ("[a]\nargv = ['ls']\nenvironment = ['A=B']", "'A=B' is no name of a variable"),
        ("[a]\nargv = ['ls']\nworking_directory = 'x'", "expected an absolute path"),
        ("[a]\nargv = ['ls']\ntimeuot = '5s'", "unknown key; did you mean 'timeout'?"),
        ("['A b']\nargv = ['ls']", "expected a name of 1 to 200 letters"),
        ("[a]\nargv = ['ls']\non_lease_loss = 'go'", "'go': expected one of stop, finish"),
        ("[a]\nargv = ['ls']\nstdin = 'file'", "'file': expected one of nothing, args"),
        ("[a]\nargv = ['ls']\nlimits = 5", "expected a table such as"),
        ("[a]\nargv = ['ls']\nlimits = { disk = 5 }", "'disk' is no limit; the limits are cpu,"),
        ("[a]\nargv = ['ls']\nlimits = { memory = 512 }", "expected a size such as"),
        ("[a]\nargv = ['ls']\nlimits = { memory = '0MiB' }", "expected a size such as"),
        ("[a]\nargv = ['ls']\nlimits = { cpu = '10' }", "expected a duration with its unit"),
        ("[a]\nargv = ['ls']\nlimits = { cpu = '0.5s' }", "expected a duration from 1s"),
        ("[a]\nargv = ['ls']\nlimits = { open_files = 0 }", "expected a whole number from 1 to"),
        ("a = 5", "shell.a: expected a table [shell.a]"),
    ],
)
def test_a_wrong_template_is_refused_with_a_sentence(toml: str, sentence: str) -> None:
    assert sentence in problems_of(toml)


def test_one_wrong_template_leaves_the_others() -> None:
    templates, problems = read_tables("shell", {"good": {"argv": ["ls"]}, "bad": {}}, ShellTemplate)

    assert list(templates) == ["good"]
    assert len(problems) == 1


@pytest.mark.parametrize("value", ["a", "2026-11-21", "user@host:/path,x=1+2"])
def test_the_default_pattern_takes_plain_values(value: str) -> None:
    assert compile_pattern(DEFAULT_PATTERN).fullmatch(value)


@pytest.mark.parametrize("value", ["", "-rf", "a b", "a;b", "$(x)", "a\n", "é", "a" * 201])
def test_the_default_pattern_refuses_what_a_program_could_take_for_more(value: str) -> None:
    assert not compile_pattern(DEFAULT_PATTERN).fullmatch(value)
