"""Executes ``shell:`` templates: programs with a fixed argument vector, never a shell.

One thread reads the output of all runs and talks to the supervisor, which starts and ends the
programs, also when this node is dead or frozen. If a program prints ``::progress 3/10 copying``,
the line is not logged but sets the run's `progress`.

A program identifies its run by PGCRON_RUN_ID, PGCRON_ATTEMPT, PGCRON_TOKEN, PGCRON_FENCE,
PGCRON_IDEMPOTENCY_KEY, PGCRON_SCHEDULE, PGCRON_FIRE_TIME, PGCRON_ORIGIN (``schedule``,
``backfill``, ``manual``, ``enqueued``, ``rerun`` or ``redrive``) and PGCRON_ARGS_FILE. With
``previous = true`` it also gets the schedule's previous run: PGCRON_PREVIOUS_RUN_ID,
PGCRON_PREVIOUS_OUTCOME, PGCRON_PREVIOUS_FIRE_TIME and PGCRON_PREVIOUS_FINISHED_AT, empty if there
is none. The file PGCRON_PREVIOUS_FILE has all of it as JSON, with result and error (``null`` if
there is none). If the database does not answer within 10 s, the attempt is retried.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pgcron_ha.config.capabilities import ShellTemplate
from pgcron_ha.errors import DatabaseUnavailable, PgcronError
from pgcron_ha.executors.contract.attempt import LogSink, StopReason
from pgcron_ha.executors.contract.base import ExecutorServices
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.failures import bounded_text, outcome_of_error, refused
from pgcron_ha.executors.contract.log_lines import RunLog
from pgcron_ha.executors.contract.outcome import (
    SUCCEEDED,
    Failed,
    Interrupted,
    Outcome,
    stopped_early,
)
from pgcron_ha.executors.contract.previous import Previous, find_previous, not_reported
from pgcron_ha.executors.process.command import (
    Account,
    account_of,
    can_reach,
    render_argv,
    run_environment,
    write_json_file,
)
from pgcron_ha.executors.process.loop import ProcessLoop, SupervisedProcess
from pgcron_ha.operating_system import how_it_ended

if TYPE_CHECKING:
    from pgcron_ha.db.driver.transactions import Transactions


class ShellRun(SupervisedProcess):
    """A run between its start and its end."""

    context: Context

    def __init__(
        self, number: int, context: Context, template: ShellTemplate, sink: LogSink
    ) -> None:
        super().__init__(number, context)
        self.log = RunLog(context, sink, reads_progress=True)
        self._template = template

    def note_started(self, started: dict[str, Any]) -> None:
        """Its own code begins."""
        super().note_started(started)
        self.context.started_monotonic = started["at"]

    def close(self) -> None:
        """Take the rest of the output."""
        super().close()
        self.log.finish()

    def outcome(self, ended: dict[str, Any] | None) -> Outcome:
        """The outcome, after `close`. ``ended`` is the supervisor's message, None if the
        supervisor died.
        """
        if ended is None:
            message = "the supervisor of this node's programs was killed, and the program with it"
            return Failed("SupervisorLost", message)
        cause, status = ended["cause"], ended["status"]
        if cause is not None:
            return self._interrupted(cause, status)
        if ended["error"] is not None:
            return Failed("CouldNotStart", bounded_text(ended["error"]))
        if status == 0:
            return SUCCEEDED
        return self._failed(status)

    def _failed(self, status: int) -> Failed:
        template = self._template
        is_snoozed = status in template.snooze_on
        is_final = status in template.discard_on or (
            template.retry_on is not None and status not in template.retry_on
        )
        return Failed(
            "ExitStatus" if status > 0 else "KilledBySignal",
            how_it_ended(status),
            self.last_of_stderr(),
            retry=is_snoozed or not is_final,
            exit_status=status,
            after=timedelta(seconds=template.snooze) if is_snoozed else None,
            snooze=is_snoozed,
        )

    def _interrupted(self, cause: str, status: int | None) -> Interrupted:
        if cause == "lease":
            reason = StopReason.LEASE_LOST
        elif cause == "timeout":
            reason = StopReason.TIMED_OUT
        else:
            reason = self.context.stop_reason or StopReason.CANCELLED
        if self.context.stop_reason is None:
            self.context.stop_reason = reason
        how = "it had not begun" if status is None else how_it_ended(status)
        return Interrupted(reason, f"stopped ({reason}): {how}")


class ShellExecutor(ProcessLoop[ShellRun]):
    """An `Executor` for the templates of the node's configuration.

    Args files are written below the directory of its services, or below the system's directory for
    temporary files if a template's user could not reach them there. ``transactions`` read the
    previous run for templates with ``previous = true``, on the event loop that made this executor;
    they are closed with it. Raises `ConfigError` for a template whose user is missing (the node is
    root), unknown or not possible.
    """

    kind: ClassVar[str] = "shell"

    def __init__(
        self,
        templates: Mapping[str, ShellTemplate],
        executor_services: ExecutorServices,
        environment: Mapping[str, str] | None = None,
        transactions: Transactions | None = None,
    ) -> None:
        self._offered = {
            f"shell:{each.name}": (each, account_of(each)) for each in templates.values()
        }
        accounts = [account for _, account in self._offered.values() if account is not None]
        directory = executor_services.directory
        if directory is not None and not all(can_reach(directory, each) for each in accounts):
            directory = None
        self._directory = Path(tempfile.mkdtemp(prefix="pgcron-ha-", dir=directory))
        # Others may pass through, to the file that is their own, but not list it.
        self._directory.chmod(0o711 if accounts else 0o700)
        super().__init__("pgcron-shell", executor_services, self._directory)
        self._feed = executor_services.feed
        self._sink = executor_services.sink
        self._environment = os.environ if environment is None else environment
        self._transactions = transactions
        self._loop = None if transactions is None else asyncio.get_running_loop()
        self._asked: dict[Context, Future[Previous | None]] = {}
        self._supervisor.open()
        self._thread.start()

    def handlers(self) -> frozenset[str]:
        """The full names of the templates."""
        return frozenset(self._offered)

    def start(self, contexts: Sequence[Context]) -> None:
        """Hand all over to the thread; once that has ended nothing is begun."""
        super().start(contexts)
        if self._ended.done():
            self._refuse_requests()

    async def close(self, grace: float) -> None:
        """Stop all runs, kill them after ``grace`` seconds, end the supervisor and the thread."""
        if self._has_closed:
            return
        await super().close(grace)
        if self._transactions is not None:
            await self._transactions.close()
        with contextlib.suppress(OSError):
            shutil.rmtree(self._directory)

    # The thread.

    def _begin(self, context: Context | None) -> None:
        """Start it; when it is refused, the slot takes the next one."""
        while context is not None:
            refused = self._start(context)
            if refused is None:
                return
            self._done(context, refused)
            context = None if self._is_closing else self._feed()

    def _start(self, context: Context) -> Outcome | None:
        asked = self._asked.pop(context, None)
        if asked is not None and (outcome := _take_answer(context, asked)) is not None:
            return outcome
        if self._is_closing and context.stop_reason is None:
            context.stop_reason = StopReason.SHUTDOWN
        if context.stop_reason is not None:
            return stopped_early(context.stop_reason)
        if context.handler not in self._offered:
            message = f"this node does not offer the handler {context.handler!r}"
            return Failed("NotFound", message)
        template, account = self._offered[context.handler]
        if template.previous and self._transactions is not None and asked is None:
            self._ask(context, self._transactions)
            return None
        self._last_number += 1
        run = ShellRun(self._last_number, context, template, self._sink)
        context._sink, context._lease = self._sink, self._lease
        try:
            self._start_run(run, template, account)
        except PgcronError as error:
            return refused(error)
        except OSError as error:
            return Failed("CouldNotStart", bounded_text(str(error)))
        except Exception as error:  # such as RecursionError: nothing of one run ends this thread
            return outcome_of_error(error, context)
        context._work = run
        self._processes[run.number] = run
        for pipe in run.pipes:
            self._watch.add(pipe)
        return None

    def _start_run(self, run: ShellRun, template: ShellTemplate, account: Account | None) -> None:
        """Raises `InvalidInput` for args that don't fit, OSError when the system has no room."""
        context = run.context
        # The fence number names the claim, as its token does, and is no secret.
        args_file = self._directory / f"{context.run_id}-{context.fence}.json"
        previous_file = args_file.with_suffix(".previous.json") if template.previous else None
        environment = run_environment(
            template, context, args_file, previous_file, self._environment
        )
        argv = render_argv(template, context)
        limits = [each for each in (context.timeout, template.timeout) if each is not None]
        self._supervisor.open()
        files: dict[Path, Any] = {args_file: context.args}
        if previous_file is not None:
            found = context._previous_found
            files[previous_file] = None if found is None else found.document()
        try:
            for path, value in files.items():
                write_json_file(path, value, account)
            descriptors = run.open_pipes(run.log)
        except BaseException:
            for path in files:
                path.unlink(missing_ok=True)
            raise
        self._supervisor.start(
            run.number,
            descriptors,
            mark="PGCRON_FENCE",
            argv=argv,
            environment=environment,
            directory=template.working_directory,
            account=account,
            timeout=min(limits, default=None),
            grace=template.grace,
            outlives_lease=context.outlives_lease,
            limits=dict(template.limits),
            reads_args=template.stdin == "args",
        )

    def _stop(self, process: ShellRun) -> None:
        self._supervisor.stop(process.number)

    def _bury(self, process: ShellRun, ended: dict[str, Any] | None) -> None:
        self._forget(process)
        self._finish(process.context, process.outcome(ended))
        if not self._is_closing:
            self._begin(self._feed())

    # The run before.

    def _ask(self, context: Context, transactions: Transactions) -> None:
        """Begin again when the database has said how the run before ended, or could not."""
        assert self._loop is not None  # with transactions
        finding = find_previous(transactions, context)
        asked = self._asked[context] = asyncio.run_coroutine_threadsafe(finding, self._loop)
        asked.add_done_callback(lambda _: self._request("start", (context,)))

    def _waiting(self) -> Sequence[Context]:
        return list(self._asked)

    def _give_up(self, context: Context) -> None:
        """Nobody waits for the answer any more; then it counts as answered."""
        if context in self._asked:
            self._asked[context].cancel()


def _take_answer(context: Context, asked: Future[Previous | None]) -> Outcome | None:
    """Keep the answer in the context; the outcome of the run if there is none."""
    try:
        context._previous_found = asked.result()
    except CancelledError:
        return stopped_early(context.stop_reason or StopReason.SHUTDOWN)
    except DatabaseUnavailable as error:
        return not_reported(error)
    except Exception as error:
        return outcome_of_error(error, context)
    return None
