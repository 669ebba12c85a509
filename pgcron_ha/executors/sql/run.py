"""One run of a SQL profile: its parameters, its statements one after the other, its outcome."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from pgcron_ha.config.sql_profiles import SqlProfile
from pgcron_ha.db.driver.sql_session import InvalidValue, SqlDatabase, SqlError, SqlSession
from pgcron_ha.db.driver.transactions import TransactionEnded
from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.failures import outcome_of_error, outcome_of_result, refused
from pgcron_ha.executors.contract.outcome import (
    MAX_RESULT_BYTES,
    SUCCEEDED,
    Failed,
    Interrupted,
    Outcome,
    Succeeded,
)
from pgcron_ha.executors.contract.previous import as_text, run_facts
from pgcron_ha.executors.contract.transaction import FlushLines, complete

# No further attempt can help: wrong SQL, no right, and what our own functions refuse.
_FINAL: Final = ("42", "PC")
# Nothing is wrong with the statement: another transaction, or the server, was in its way.
_PASSING: Final = ("40", "55P03", "57P", "53", "08", "25006")


class SqlRun:
    """Executes it. `session` is there from the moment at which there is something to end."""

    def __init__(
        self, context: Context, profile: SqlProfile, database: SqlDatabase, flush: FlushLines
    ) -> None:
        self.context = context
        self.profile = profile
        self.session: SqlSession | None = None
        self.is_killed = False
        self._database = database
        self._flush = flush

    def refusal(self) -> Failed | None:
        """Why it is not even begun; None in the usual case."""
        context, profile = self.context, self.profile
        if context.delivery == "transactional" and not profile.transactional:
            return _invalid(
                f"the profile {profile.name!r} is not transactional",
                "a run with that delivery needs a profile with transactional = true",
            )
        try:
            given = frozenset(context.args)
        except PgcronError as error:
            return refused(error)
        needed = profile.parameters
        wrong = sorted(given ^ needed)
        if wrong:
            problem = "is missing" if wrong[0] in needed else "is no parameter of the profile"
            names = ", ".join(sorted(needed)) or "no args"
            return _invalid(f"the arg {wrong[0]!r} {problem}", f"the profile takes {names}")
        return None

    async def execute(self) -> Outcome:
        """Execute to the end; on return it is committed or rolled back. Raises nothing."""
        context = self.context
        try:
            facts = run_facts(context).items()
            settings = {f"pgcron.{name}": as_text(each) for name, each in facts}
            self.session = await self._database.open(settings)
        except (asyncio.CancelledError, Exception) as error:
            return self._outcome_of(error, "")
        session = self.session
        try:
            outcome = await self._execute(session)
        finally:
            session.leave()
        return outcome

    async def _execute(self, session: SqlSession) -> Outcome:
        place = ""
        try:
            if self.profile.atomic:
                await session.begin()
            rows: list[dict[str, Any]] = []
            for number in range(1, len(self.profile.statements) + 1):
                place = self._place(number)
                self._stop_here()
                rows = await self._send(session, number, rows)
            self._stop_here()
            outcome = self._result(rows)
            if not isinstance(outcome, Succeeded):
                await session.roll_back()
                return outcome
            return await self._commit(session, outcome)
        except (asyncio.CancelledError, Exception) as error:
            if not self.is_killed:
                await session.roll_back()
            return self._outcome_of(error, place)

    async def _send(
        self, session: SqlSession, number: int, before: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        statement = self.profile.statements[number - 1]
        facts = {f"pgcron_{name}": value for name, value in run_facts(self.context).items()}
        values = {**self.context.args, **facts}
        keep = self.profile.max_rows + 1 if self.profile.rows else 0
        place = self._place(number)

        def say(line: str) -> None:
            self.context.log(place + line)

        rows = await session.execute(
            statement.text, [values[name] for name in statement.parameters], keep, say
        )
        return rows or before

    async def _commit(self, session: SqlSession, outcome: Succeeded) -> Outcome:
        if not self.profile.transactional:
            await session.commit()
            return outcome
        result = None if outcome.text is None else json.loads(outcome.text)
        return await complete(session, self.context, self._flush, outcome, result)

    def _stop_here(self) -> None:
        if self.context.stop_reason is not None:
            raise asyncio.CancelledError

    def _result(self, rows: list[dict[str, Any]]) -> Outcome:
        """The last rows of the result, as many as fit."""
        if not self.profile.rows:
            return SUCCEEDED
        most = self.profile.max_rows
        while True:
            kept = rows[:most]
            outcome = outcome_of_result({"rows": kept, "is_cut": len(kept) < len(rows)})
            too_large = isinstance(outcome, Failed) and outcome.error_class == "TooLarge"
            if not too_large or not kept:
                return outcome
            size = len(json.dumps(kept, ensure_ascii=False).encode())
            most = min(len(kept) - 1, len(kept) * MAX_RESULT_BYTES // (size + 1))

    def _outcome_of(self, error: BaseException, place: str) -> Outcome:
        context = self.context
        if context.stop_reason is not None:
            return Interrupted(context.stop_reason, f"stopped: {context.stop_reason}")
        if isinstance(error, SqlError):
            retry = error.code.startswith(_PASSING) or not error.code.startswith(_FINAL)
            return Failed(error.code, place + error.message, retry=retry)
        if isinstance(error, TransactionEnded):
            return Failed("TransactionEnded", str(error), retry=False)
        if isinstance(error, InvalidValue):
            return _invalid(place + error.message, None)
        if isinstance(error, PgcronError):
            message = error.message if error.detail is None else f"{error.message}: {error.detail}"
            return Failed(type(error).__name__, place + message)
        return outcome_of_error(error, context)

    def _place(self, number: int) -> str:
        count = len(self.profile.statements)
        return "" if count == 1 else f"statement {number} of {count}: "


def _invalid(message: str, detail: str | None) -> Failed:
    return Failed("InvalidInput", message, detail, retry=False)
