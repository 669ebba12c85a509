"""Executes ``shell:`` templates: programs with a fixed argument vector, never a shell.

One event loop reads the output of all runs and talks to the supervisor, which starts and ends the
programs, also when this node is dead or frozen. If a program prints ``::progress 3/10 copying``,
the line is not logged but sets the run's `progress`.

A program identifies its run by PGCRON_RUN_ID, PGCRON_ATTEMPT, PGCRON_TOKEN, PGCRON_FENCE,
PGCRON_IDEMPOTENCY_KEY, PGCRON_SCHEDULE, PGCRON_FIRE_TIME, PGCRON_ORIGIN (``schedule``,
``backfill``, ``manual``, ``enqueued``, ``rerun``, ``redrive`` or ``step``) and PGCRON_ARGS_FILE.
The file PGCRON_RESULTS_FILE has the results of the steps that a step of a workflow comes after, as
JSON by their names; the variable is empty for other runs. With
``previous = true`` it also gets the schedule's previous run: PGCRON_PREVIOUS_RUN_ID,
PGCRON_PREVIOUS_OUTCOME, PGCRON_PREVIOUS_FIRE_TIME and PGCRON_PREVIOUS_FINISHED_AT, empty if there
is none. The file PGCRON_PREVIOUS_FILE has all of it as JSON, with result and error (``null`` if
there is none). If the database does not answer within 10 s, the attempt is retried.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from pgcron_ha.config.capabilities import ShellTemplate
from pgcron_ha.config.capability_table import PLACEHOLDER
from pgcron_ha.db.driver.link import Link
from pgcron_ha.errors import ConfigError, InvalidInput
from pgcron_ha.executors.contract.base import SUCCEEDED, Context, ExecutorServices, Failed, Outcome
from pgcron_ha.executors.contract.log_lines import RunLog
from pgcron_ha.executors.contract.placeholders import placeholder_texts
from pgcron_ha.executors.contract.previous import as_text, facts_of, note_previous, run_facts
from pgcron_ha.executors.process.supervision import (
    ProcessExecutor,
    SupervisedProcess,
    outcome_of_force,
)
from pgcron_ha.operating_system import how_it_ended

_INSTEAD = "read structured args from the file PGCRON_ARGS_FILE"


def account_of(template: ShellTemplate) -> pwd.struct_passwd | None:
    """The user that a run switches to, without its other groups; None: the node's own. Raises
    `ConfigError`.
    """
    root = os.geteuid() == 0
    if template.user is None:
        if root:
            raise ConfigError(
                f"the shell template {template.name!r} names no user, and the node runs as root",
                "a node that runs as root starts no program as root unless its template says so",
                f'set user = "…" in [shell.{template.name}]',
            )
        return None
    try:
        entry = pwd.getpwnam(template.user)
    except KeyError:
        raise ConfigError(
            f"the shell template {template.name!r} names the unknown user {template.user!r}",
            "the user must exist on the node's host",
            f"create it, or correct user in [shell.{template.name}]",
        ) from None
    if root:
        return entry
    if entry.pw_uid != os.geteuid():
        raise ConfigError(
            f"the shell template {template.name!r} names the user {template.user!r}, "
            "but the node is another one",
            "only a node that runs as root can start programs as somebody else",
            f"run the node as {template.user} or as root, or leave user out",
        )
    return None


class ShellExecutor(ProcessExecutor):
    """An `Executor` for the templates of the node's configuration.

    Args files are written below the directory of its services, which is the node's alone, or below
    the system's directory for temporary files if a template has another user, who can't pass there.
    It asks for the previous run, for templates with ``previous = true``, over ``link``, which is
    closed with it. Raises `ConfigError` for a template whose user is missing (the node is root),
    unknown or not possible.
    """

    _directory: Path

    def __init__(
        self,
        templates: Mapping[str, ShellTemplate],
        executor_services: ExecutorServices,
        link: Link,
    ) -> None:
        self._offered = {
            f"shell:{each.name}": (each, account_of(each)) for each in templates.values()
        }
        accounts = [account for _, account in self._offered.values() if account is not None]
        passes = all(account.pw_uid == 0 for account in accounts)
        directory = executor_services.directory if passes else None
        self._directory = Path(tempfile.mkdtemp(prefix="pgcron-ha-", dir=directory))
        # Others may pass through, to the file that is their own, but not list it.
        self._directory.chmod(0o711 if accounts else 0o700)
        self._link = link
        self.time_limits = {name: template.timeout for name, (template, _) in self._offered.items()}
        super().__init__("shell", self._offered, executor_services)
        self._post(self._open_supervisor)

    async def execute(self, context: Context) -> Outcome:
        """The program, from its start to the end of all that it has started."""
        template, _ = self._offered[context.handler]
        if template.previous and (unknown := await note_previous(self._link, context)):
            return unknown
        context._log = RunLog(context, self._services.sink, reads_progress=True)
        process = SupervisedProcess(context)
        try:
            self._start_program(process, context)
            context._work = process
            return self._outcome(context, process, await process.ended)
        except OSError as error:
            return Failed("CouldNotStart", str(error))
        finally:
            for name in ("args", "results", "previous"):
                self._file(context, name).unlink(missing_ok=True)

    def _outcome(
        self, context: Context, process: SupervisedProcess, ended: dict[str, Any] | None
    ) -> Outcome:
        """``ended`` is the supervisor's message, None if the supervisor died."""
        if ended is None or ended["cause"] is not None:
            return outcome_of_force(context, ended)
        if ended["error"] is not None:
            return Failed("CouldNotStart", ended["error"])
        template, _ = self._offered[context.handler]
        status: int = ended["status"]
        if status == 0:
            return SUCCEEDED
        is_snoozed = status in template.snooze_on
        is_final = status in template.discard_on or (
            template.retry_on and status not in template.retry_on
        )
        return Failed(
            "ExitStatus" if status > 0 else "KilledBySignal",
            how_it_ended(status),
            process.last_of_stderr(),
            retry=is_snoozed or not is_final,
            exit_status=status,
            after=timedelta(seconds=template.snooze) if is_snoozed else None,
            snooze=is_snoozed,
        )

    def interrupt(self, context: Context) -> None:
        """SIGTERM to the process group, and SIGKILL when its grace is over."""
        super().interrupt(context)
        self._loop.call_later(self._offered[context.handler][0].grace, self.kill, context)

    async def shut(self) -> None:
        """Leave no process, and no file."""
        await super().shut()
        shutil.rmtree(self._directory, ignore_errors=True)
        await self._link.close()

    def _file(self, context: Context, name: str) -> Path:
        # The fence number names the claim, as its token does, and is no secret.
        return self._directory / f"{context.run_id}-{context.fence}.{name}.json"

    def _start_program(self, process: SupervisedProcess, context: Context) -> None:
        """Write its files, and start it.

        Raises `InvalidInput` for args that don't fit: one that the template has neither a
        placeholder nor stdin for, one that is missing, and a value that does not match its pattern
        or would become an option; OSError when the system has no room.
        """
        template, account = self._offered[context.handler]
        # Where the program reads all args, what they are is its affair.
        reads_args = template.stdin == "args"
        values = placeholder_texts(template.placeholders, context, _INSTEAD, reads_args)
        argv = [PLACEHOLDER.sub(lambda found: values[found[1]], item) for item in template.argv]
        for item, text in zip(template.argv, argv, strict=True):
            if text.startswith("-") and item.startswith("{") and not template.may_be_option:
                raise InvalidInput(
                    f"the argument {item!r} would be {text[:100]!r}",
                    "what begins with a dash is an option to most programs",
                    f"give another value, or set may_be_option = true in [shell.{template.name}]",
                )
        # Of the node's own variables only allowed ones are taken.
        node = {"PATH": "/usr/local/bin:/usr/bin:/bin", **os.environ}
        allowed = {name: node[name] for name in ("PATH", *template.environment) if name in node}

        facts = {name: as_text(each) for name, each in run_facts(context).items()}
        facts["results_file"] = ""
        documents: dict[str, Any] = {"args": context.args}
        if context.origin == "step":
            documents["results"] = dict(context.results)
        if template.previous:
            documents["previous"] = context._previous_found
            previous = facts_of(context._previous_found)
            facts |= {f"previous_{name}": each for name, each in previous.items()}
        for name, document in documents.items():
            path = self._file(context, name)
            facts[f"{name}_file"] = str(path)
            # A new file that only the run's user can read.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                if account is not None:
                    os.fchown(descriptor, account.pw_uid, account.pw_gid)
                json.dump(document, file, ensure_ascii=False)
        self._start_process(
            process,
            mark="PGCRON_FENCE",
            argv=argv,
            environment=allowed | {f"PGCRON_{name.upper()}": each for name, each in facts.items()},
            directory=template.working_directory,
            account=None if account is None else (account.pw_uid, account.pw_gid),
            outlives_lease=context.outlives_lease,
            limits=dict(template.limits),
            reads_args=reads_args,
            may_gain_privileges=template.may_gain_privileges,
        )
