import asyncio
import json
import os
import pwd
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.contract.base import SUCCEEDED, Context, Failed, Interrupted, StopReason
from pgcron_ha.operating_system import boottime
from tests.executors.family import KINDS
from tests.executors.running import Record, alive, context, no_link, readable_pid, template
from tests.product.config import ShellTemplate
from tests.product.executors import MAX_LINE_BYTES, MAX_LINES, Progress, ShellExecutor
from tests.waiting import wait_for

FAMILY = str(Path(__file__).with_name("family.py"))
# SIGCANCEL and SIGSETXID are glibc's own: no program can set or clear them, and a thread that is
# being made may pass them on blocked.
OF_THE_C_LIBRARY = 0b11 << 31
IGNORES_SIGTERM = "trap '' TERM; echo ready; while :; do sleep 1; done"


@asynccontextmanager
async def executor(
    *templates: ShellTemplate, **services: Any
) -> AsyncIterator[tuple[ShellExecutor, Record]]:
    record = Record()
    by_name = {each.name: each for each in templates}
    running = ShellExecutor(by_name, record.services(**services), no_link())
    try:
        yield running, record
    finally:
        await running.close(5)


async def run_once(offered: ShellTemplate, args: Any = "{}", **settings: Any) -> tuple[Any, Record]:
    async with executor(offered, **settings) as (running, record):
        run = context(1, f"shell:{offered.name}", args)
        running.start([run])
        return await asyncio.to_thread(record.outcome, run), record


def shell(script: str, **settings: Any) -> ShellTemplate:
    return template("sh", "-c", script, **settings)


def lines(record: Record, stream: str) -> list[str]:
    return [line for _, name, line in record.lines if name == stream]


async def test_exit_0_succeeds_and_the_output_is_its_log() -> None:
    outcome, record = await run_once(shell("echo one; echo two >&2; printf 'no end'"))
    assert outcome is SUCCEEDED
    assert lines(record, "stdout") == ["one", "no end"]
    assert lines(record, "stderr") == ["two"]


async def test_another_status_fails_with_the_last_lines_of_stderr() -> None:
    script = "i=0; while [ $i -lt 999 ]; do echo line $i >&2; i=$((i+1)); done; exit 3"
    outcome, _ = await run_once(shell(script))
    assert (outcome.error_class, outcome.message) == ("ExitStatus", "exited with status 3")
    assert (outcome.exit_status, outcome.retry) == (3, True)
    assert outcome.traceback.endswith("line 998\n")
    assert len(outcome.traceback) <= 2048


@pytest.mark.parametrize(
    ("status", "retry", "snooze"), [(75, True, False), (64, False, False), (99, True, True)]
)
async def test_a_template_says_what_its_exit_statuses_mean(
    status: int, retry: bool, snooze: bool
) -> None:
    meanings = {"retry_on": frozenset({75}), "discard_on": frozenset({65})}
    offered = shell(f"exit {status}", snooze_on=frozenset({99}), snooze=30.0, **meanings)

    outcome, _ = await run_once(offered)

    assert (outcome.retry, outcome.snooze) == (retry, snooze)
    assert outcome.after == (timedelta(seconds=30) if snooze else None)
    assert outcome.exit_status == status


async def test_a_death_by_signal_says_which() -> None:
    outcome, _ = await run_once(shell("kill -SEGV $$"))
    assert outcome.message == "killed by signal 11 (SIGSEGV)"
    assert outcome.exit_status == -11


async def test_a_program_reads_its_args_from_stdin_where_the_template_says_so() -> None:
    args = {"days": ["2026-11-21", "2026-11-22"], "note": "two\nlines"}
    outcome, record = await run_once(shell("cat", stdin="args"), json.dumps(args))
    assert outcome is SUCCEEDED
    assert [json.loads(line) for line in lines(record, "stdout")] == [args]
    outcome, record = await run_once(shell("cat; echo end"))
    assert lines(record, "stdout") == ["end"]


_OPENS_20 = 'files = [open("/dev/null") for _ in range(20)]'
_BEYOND = {
    "cpu": (1, "while :; do :; done", "killed by signal 9"),
    "memory": (64 << 20, f"exec {sys.executable} -c 'bytearray(1 << 27)'", "exited with status 1"),
    "file_size": (65536, "exec head -c 70000 /dev/zero > $0.big", "killed by signal 25"),
    "open_files": (16, f"exec {sys.executable} -c '{_OPENS_20}'", "exited with status 1"),
}


@pytest.mark.parametrize("limit", _BEYOND)
async def test_a_limit_ends_the_program_that_goes_beyond_it(limit: str, tmp_path: Path) -> None:
    most, script, how = _BEYOND[limit]
    offered = shell(script, limits={limit: most}, working_directory=str(tmp_path))
    outcome, _ = await run_once(offered)
    assert outcome is not SUCCEEDED
    assert outcome.message.startswith(how)


async def test_the_limits_are_those_of_the_program_alone() -> None:
    offered = shell("ulimit -n; ulimit -f; ulimit -p", limits={"open_files": 77, "processes": 99})
    _, record = await run_once(offered)
    assert lines(record, "stdout") == ["77", "unlimited", "99"]


async def test_a_program_that_is_missing_could_not_start() -> None:
    outcome, _ = await run_once(template("no-such-program"))
    assert isinstance(outcome, Failed)
    assert outcome.error_class == "CouldNotStart"
    assert "'no-such-program' could not be started" in outcome.message


async def test_a_run_has_exactly_the_documented_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fire = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
    for name, value in {"LANG": "C.UTF-8", "SECRET": "s", "PGCRON_HA_DSN": "d"}.items():
        monkeypatch.setenv(name, value)
    offered = template("env", environment=("LANG", "ABSENT"))
    async with executor(offered) as (running, record):
        run = context(7, "shell:t", schedule="nightly", fire_time=fire, origin="backfill")
        running.start([run])
        assert record.outcome(run) is SUCCEEDED
        variables = dict(line.split("=", 1) for line in record.lines_of(run))
    args_file = variables.pop("PGCRON_ARGS_FILE")
    assert variables == {
        "PGCRON_RESULTS_FILE": "",
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "PGCRON_RUN_ID": "7",
        "PGCRON_ATTEMPT": "1",
        "PGCRON_TOKEN": "***",  # what is written as a secret is masked in lines
        "PGCRON_FENCE": "14",
        "PGCRON_IDEMPOTENCY_KEY": str(run.run_uuid),
        "PGCRON_SCHEDULE": "nightly",
        "PGCRON_FIRE_TIME": "2026-11-21T02:00:00Z",
        "PGCRON_ORIGIN": "backfill",
    }
    assert not Path(args_file).exists()
    async with executor(shell('echo "$PGCRON_TOKEN"')) as (running, record):
        running.start([run := context(7, "shell:t")])
        assert record.outcome(run) is SUCCEEDED
        assert record.lines_of(run) == [str(run.token)]


async def test_a_program_inherits_no_descriptor_and_ignores_no_signal(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        _, listed = await run_once(template("ls", "/proc/self/fd"), inherit=(lock.fileno(),))
    _, status = await run_once(template("grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"))
    assert lines(listed, "stdout") == ["0", "1", "2", "3"], "3 is the directory that ls reads"
    masks = [int(line.split()[1], 16) & ~OF_THE_C_LIBRARY for line in lines(status, "stdout")]
    assert masks == [0, 0]


async def test_a_program_gains_no_rights_and_its_files_are_its_users_alone(tmp_path: Path) -> None:
    shown = "grep NoNewPrivs /proc/self/status; umask"
    for may, number in ((False, "1"), (True, "0")):
        _, record = await run_once(shell(shown, may_gain_privileges=may))
        assert lines(record, "stdout") == [f"NoNewPrivs:\t{number}", "0077"]


async def test_runs_that_were_claimed_by_one_statement_share_a_token_and_nothing_else() -> None:
    script = 'test -s "$PGCRON_ARGS_FILE" && echo "$PGCRON_RUN_ID"'
    async with executor(shell(script)) as (running, record):
        runs = [context(number, "shell:t") for number in range(4)]
        for run in runs:
            run.token = runs[0].token
        running.start(runs)
        for run in runs:
            assert await asyncio.to_thread(record.outcome, run) is SUCCEEDED
            assert record.lines_of(run) == [str(run.run_id)]


async def test_the_args_file_is_for_the_runs_user_only_and_is_removed(tmp_path: Path) -> None:
    script = 'cat "$PGCRON_ARGS_FILE"; echo; stat -c "%a %u" "$PGCRON_ARGS_FILE"'
    offered = shell(script, placeholders={"who": "[^\0]+"})
    args = {"who": 'Zoë "the" cat'}
    async with executor(offered, directory=tmp_path) as (running, record):
        run = context(1, "shell:t", args)
        running.start([run])
        assert record.outcome(run) is SUCCEEDED
        assert list(tmp_path.glob("*/*")) == []
    text, mode = record.lines_of(run)
    assert json.loads(text) == args
    assert mode == f"600 {os.geteuid()}"
    assert list(tmp_path.iterdir()) == []


async def test_a_node_that_is_root_runs_a_template_as_its_user_and_another_node_refuses() -> None:
    script = 'id -un; id -G; cat "$PGCRON_ARGS_FILE"; echo; stat -c "%a %U" "$PGCRON_ARGS_FILE"'
    offered = shell(script, user="nobody" if os.geteuid() == 0 else "root")
    nobody = pwd.getpwnam("nobody")
    if os.geteuid() != 0:
        with pytest.raises(ConfigError, match="the node is another one"):
            await run_once(offered)
        return
    outcome, record = await run_once(offered, directory=Path("/root"))
    assert outcome is SUCCEEDED
    assert lines(record, "stdout") == ["nobody", str(nobody.pw_gid), "{}", "600 nobody"]


async def test_a_node_that_is_root_needs_a_user_for_each_template() -> None:
    offered = shell("id -u", user=None)
    if os.geteuid() == 0:
        with pytest.raises(ConfigError, match="names no user, and the node runs as root"):
            await run_once(offered)
    else:
        _, record = await run_once(offered)
        assert lines(record, "stdout") == [str(os.geteuid())]


async def test_a_user_that_does_not_exist_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="unknown user 'no-such-user'"):
        await run_once(shell("true", user="no-such-user"))


async def test_values_become_parts_of_single_arguments_and_no_shell_reads_them() -> None:
    placeholders = {"db": "[^\0]+", "n": r"\d+", "b": "true|false", "f": r"[\d.]+"}
    offered = template(
        "printf", "%s\n", "--db={db}", "{n}{n}", "{b}", "{f}", "{{db}}", placeholders=placeholders
    )
    args = {"db": "a b; rm -rf $HOME {n} *", "n": 42, "b": True, "f": 1.5}
    outcome, record = await run_once(offered, args)
    assert outcome is SUCCEEDED
    value = args["db"]
    assert lines(record, "stdout") == [
        f"--db={value}",
        "4242",
        "true",
        "1.5",
        "{" + f"{value}" + "}",
    ]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({}, "the arg 'db' is missing"),
        ({"db": "shop", "extra": 1}, "no placeholder for the arg 'extra'"),
        ({"db": "Shop"}, "has the value 'Shop'"),
        ({"db": "shop\n"}, "has the value"),
        ({"db": "--help"}, "has the value '--help'"),
        ({"db": "a\0b"}, "has the value"),
        ({"db": ""}, "has the value ''"),
        ({"db": "a" * 5000}, "has the value"),
        ({"db": ["shop"]}, "is of type 'list'"),
        ({"db": None}, "is of type 'NoneType'"),
    ],
)
async def test_args_that_do_not_fit_the_template_are_refused(args: Any, sentence: str) -> None:
    placeholders = {"db": "[a-z][a-z\0]*"}
    outcome, record = await run_once(template("echo", "{db}", placeholders=placeholders), args)
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("InvalidInput", False)
    assert sentence in outcome.message
    assert not record.lines


@pytest.mark.parametrize(
    ("item", "value", "is_option"),
    [
        ("{db}", "--help", True),
        ("{db}{db}", "-n", True),
        ("{db}", "a-b", False),
        ("{db}", "", False),
        ("--db={db}", "-n", False),
        ("-{db}", "-n", False),
    ],
)
async def test_no_value_becomes_an_option_unless_the_template_says_so(
    item: str, value: str, is_option: bool
) -> None:
    given = ("printf", "%s\n", "--", item)
    for may in (False, True):
        offered = template(*given, placeholders={"db": "[^\0]*"}, may_be_option=may)
        outcome, record = await run_once(offered, {"db": value})
        if is_option and not may:
            assert isinstance(outcome, Failed)
            assert (outcome.error_class, outcome.retry) == ("InvalidInput", False)
            assert f"the argument '{item}' would be '{value}" in outcome.message
        else:
            assert outcome is SUCCEEDED
            assert lines(record, "stdout")[-1] == item.replace("{db}", value)


async def test_args_nested_too_deeply_fail_their_run_and_no_other(tmp_path: Path) -> None:
    levels = 9000
    offered = shell("read line; echo $line", stdin="args")
    async with executor(offered, directory=tmp_path) as (running, record):
        runs = [context(1, "shell:t", f'{{"a": {"[" * levels}{"]" * levels}}}')]
        runs += [context(2, "shell:t", '{"b": 1}')]
        running.start(runs)
        nested, plain = [await asyncio.to_thread(record.outcome, run) for run in runs]
        assert isinstance(nested, Failed)
        assert nested.error_class == "RecursionError"
        assert plain is SUCCEEDED
        assert [line for _, _, line in record.lines] == ['{"b": 1}']
        assert [path.name for path in tmp_path.rglob("*.json")] == []


async def test_a_thread_that_ends_by_an_error_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[BaseException] = []
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    class Breaks(Record):
        def done(self, context: Context, outcome: Any) -> None:
            super().done(context, outcome)
            raise ValueError("the engine's own fault")

    record = Breaks()
    offered = {"t": shell("true")}
    place = record.services(failed=failures.append)
    running = ShellExecutor(offered, place, no_link())
    running.start([run := context(1, "shell:t")])
    await asyncio.to_thread(record.outcome, run)
    await asyncio.wait_for(running.close(20), 10)
    assert [str(each) for each in failures] == ["the engine's own fault"]


async def test_output_is_seen_line_by_line_while_the_program_runs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go on")
    async with executor(shell(f"echo one; read x < '{tmp_path}/go on'; echo $x")) as (
        running,
        record,
    ):
        run = context(1, "shell:t")
        running.start([run])
        record.wait_for_line(run, "one")
        assert run.run_id not in record.outcomes
        wait_for("its start is told", lambda: run.started_monotonic is not None)
        (tmp_path / "go on").write_text("two\n")
        assert record.outcome(run) is SUCCEEDED
        assert record.lines_of(run) == ["one", "two"]


async def test_a_flood_of_lines_is_bounded_and_counted() -> None:
    outcome, record = await run_once(
        shell("head -c 20000000 /dev/zero | tr '\\0' '\\n'; echo last >&2")
    )
    assert outcome is SUCCEEDED
    assert len(record.lines) == MAX_LINES + 1
    dropped = 20_000_000 + 1 - MAX_LINES
    assert record.lines[-1][2] == f"{dropped} more lines were dropped: a run keeps {MAX_LINES}"


async def test_output_that_is_no_text_becomes_lines_that_can_be_kept() -> None:
    outcome, record = await run_once(
        shell("head -c 5000000 /dev/zero; printf '\\n\\377z\\303\\251\\n'")
    )
    assert outcome is SUCCEEDED
    long, rest = lines(record, "stdout")
    assert len(long.encode()) <= MAX_LINE_BYTES
    assert rest == "\ufffdzé"


async def test_a_stopped_program_ends_by_sigterm_and_the_first_reason_stays() -> None:
    script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    async with executor(shell(script)) as (running, record):
        run = context(1, "shell:t")
        running.start([run])
        record.wait_for_line(run, "ready")
        running.stop(run, StopReason.CANCELLED)
        running.stop(run, StopReason.SHUTDOWN)
        outcome = record.outcome(run)
        assert outcome == Interrupted(
            StopReason.CANCELLED, "stopped (cancelled): exited with status 0"
        )
        assert record.lines_of(run, "stdout") == ["ready", "bye"]


async def test_a_stop_at_any_instant_of_the_start_ends_the_run() -> None:
    async with executor(template("sleep", "60")) as (running, record):
        runs = [context(number, "shell:t") for number in range(30)]
        for run in runs:
            running.start([run])
            running.stop(run, StopReason.CANCELLED)
        for run in runs:
            outcome = record.outcome(run)
            assert isinstance(outcome, Interrupted)
            assert outcome.reason is StopReason.CANCELLED


async def test_a_program_that_ignores_sigterm_is_killed_after_its_grace() -> None:
    async with executor(shell(IGNORES_SIGTERM, grace=0.1)) as (running, record):
        run = context(1, "shell:t")
        running.start([run])
        record.wait_for_line(run, "ready")
        running.stop(run, StopReason.TIMED_OUT)
        assert record.outcome(run) == Interrupted(
            StopReason.TIMED_OUT, "stopped (timed_out): killed by signal 9 (SIGKILL)"
        )


async def test_kill_ends_a_program_at_once() -> None:
    async with executor(shell(IGNORES_SIGTERM, grace=3600)) as (running, record):
        run = context(1, "shell:t")
        running.start([run])
        record.wait_for_line(run, "ready")
        assert running.kill(run)
        assert isinstance(record.outcome(run), Interrupted)


async def test_the_timeout_of_a_template_ends_a_run() -> None:
    async with executor(shell(IGNORES_SIGTERM, timeout=0.1, grace=0.1)) as (running, record):
        run = context(1, "shell:t", timeout=3600)
        running.start([run])
        outcome = record.outcome(run)
        assert isinstance(outcome, Interrupted)
        assert outcome.reason is StopReason.TIMED_OUT
        assert run.stop_reason is StopReason.TIMED_OUT


async def test_the_end_of_the_lease_kills_all_and_refuses_more_until_it_is_renewed() -> None:
    async with executor(shell(IGNORES_SIGTERM), template("true", name="quick")) as (
        running,
        record,
    ):
        runs = [context(number, "shell:t") for number in range(3)]
        running.renew_lease(boottime() + 60)
        running.start(runs)
        for run in runs:
            record.wait_for_line(run, "ready")
        running.renew_lease(boottime() + 0.1)
        for run in runs:
            outcome = record.outcome(run)
            assert isinstance(outcome, Interrupted)
            assert outcome.reason is StopReason.LEASE_LOST
        late = context(10, "shell:quick")
        running.start([late])
        outcome = record.outcome(late)
        assert isinstance(outcome, Interrupted)
        assert outcome.reason is StopReason.LEASE_LOST
        running.renew_lease(boottime() + 60)
        again = context(11, "shell:quick")
        running.start([again])
        assert record.outcome(again) is SUCCEEDED


async def test_a_run_is_over_only_when_all_it_left_behind_is_gone(tmp_path: Path) -> None:
    async with executor(template(sys.executable, FAMILY, str(tmp_path), "leaves")) as (
        running,
        record,
    ):
        run = context(1, "shell:t")
        running.start([run])
        assert record.outcome(run) is SUCCEEDED
        pids = [int((tmp_path / kind).read_text()) for kind in ("main", *KINDS)]
        assert [pid for pid in pids if alive(pid)] == []


async def test_the_end_of_one_run_leaves_the_others_descendants_alone(tmp_path: Path) -> None:
    family = template(sys.executable, FAMILY, str(tmp_path), "stays", name="family")
    async with executor(family, template("true"), template("sleep", "60", name="sleep")) as (
        running,
        record,
    ):
        older, long, younger = (
            context(number, name)
            for number, name in enumerate(("shell:sleep", "shell:family", "shell:t"))
        )
        running.start([older])
        wait_for("the older one has begun", lambda: older.started_monotonic is not None)
        running.start([long])
        wait_for("the family is there", lambda: readable_pid(tmp_path / "main"))
        pids = [int((tmp_path / kind).read_text()) for kind in ("main", *KINDS)]
        running.start([younger])
        assert record.outcome(younger) is SUCCEEDED
        assert all(alive(pid) for pid in pids)
        running.kill(older)
        record.outcome(older)
        assert all(alive(pid) for pid in pids)
        running.kill(long)
        record.outcome(long)
        assert [pid for pid in pids if alive(pid)] == []


async def test_a_killed_supervisor_takes_its_programs_along_and_is_replaced() -> None:
    async with executor(shell("echo $PPID $$; sleep 60"), template("true", name="quick")) as (
        running,
        record,
    ):
        run = context(1, "shell:t")
        running.start([run])
        wait_for("its process is known", lambda: record.lines_of(run) != [])
        supervisor, pid = map(int, record.lines_of(run)[0].split())
        record.waiting.append(context(2, "shell:quick"))
        follower = record.waiting[0]
        os.kill(supervisor, signal.SIGKILL)
        outcome = record.outcome(run)
        assert isinstance(outcome, Failed)
        assert (outcome.error_class, outcome.retry) == ("SupervisorLost", True)
        # The kernel closes the supervisor's pipe before it kills what the supervisor started.
        wait_for("its program is gone", lambda: not alive(pid))
        assert record.outcome(follower) is SUCCEEDED


async def test_a_run_that_ends_takes_the_next_one_and_refusals_do_not_break_the_chain() -> None:
    placeholders = {"n": r"\d+"}
    async with executor(template("echo", "{n}", placeholders=placeholders)) as (running, record):
        runs: list[Context] = []
        for number in range(30):
            args: dict[str, Any] = {"n": "x" if number % 5 == 4 else number}
            runs.append(context(number, "shell:none" if number % 7 == 6 else "shell:t", args))
        record.waiting.extend(runs[2:])
        running.start(runs[:2])
        for run in runs:
            outcome = record.outcome(run)
            if run.handler == "shell:none" or run.args["n"] == "x":
                assert isinstance(outcome, Failed)
            else:
                assert outcome is SUCCEEDED
                assert record.lines_of(run) == [str(run.run_id)]


async def test_a_program_says_how_far_it_is_in_lines_that_are_not_logged() -> None:
    script = """
    echo begins; echo "::progress 1/4 one"; printf '::prog'; echo 'ress 50%'
    seq 20000; echo '::progress 3'; echo '::progress soon' >&2; printf '::progress 4/4  all done'
    """
    _, record = await run_once(shell(script))

    assert record.reports == [
        Progress(1, 4, "one"),
        Progress(50, 100, None),
        Progress(3, None, None),
        Progress(4, 4, "all done"),
    ]
    assert lines(record, "stdout")[:2] == ["begins", "1"]
    assert lines(record, "stderr") == []
    assert lines(record, "log") == [
        f"{20_002 - MAX_LINES} more lines were dropped: a run keeps {MAX_LINES}"
    ]


async def test_close_kills_what_does_not_stop_and_leaves_nothing(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    descriptors = set(os.listdir("/proc/self/fd"))
    script = f"echo $PPID $$; {IGNORES_SIGTERM}"
    async with executor(shell(script, grace=3600), directory=tmp_path) as (running, record):
        runs = [context(number, "shell:t") for number in range(3)]
        running.start(runs)
        for run in runs:
            record.wait_for_line(run, "ready")
        await running.close(0.1)
    for run in runs:
        outcome = record.outcome(run)
        assert isinstance(outcome, Interrupted)
        assert outcome.reason is StopReason.SHUTDOWN
        assert not any(alive(int(pid)) for pid in record.lines_of(run)[0].split())
    late = context(9, "shell:t")
    running.start([late])
    assert isinstance(record.outcome(late), Interrupted)
    assert set(threading.enumerate()) <= before
    assert set(os.listdir("/proc/self/fd")) <= descriptors
    assert list(tmp_path.iterdir()) == []
