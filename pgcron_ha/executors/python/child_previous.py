"""`Context.previous` in a process of its own: the child asks its node, which asks the database."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pgcron_ha import errors
from pgcron_ha.errors import DatabaseUnavailable, PgcronError
from pgcron_ha.executors.contract.previous import AsksDatabase, Source

if TYPE_CHECKING:
    from pgcron_ha.executors.python.child_process import ChildProcess

_TIMES: Final = ("fire_time", "finished_at")

Say = Callable[[dict[str, Any]], None]


class AsksNode:
    """The child's side: what stands in it for the database. Belongs to the handlers' loop, but for
    `begin` and `hear`.
    """

    def __init__(self, say: Say, loop: asyncio.AbstractEventLoop) -> None:
        self._say = say
        self._loop = loop
        self._number = 0
        self._answer: asyncio.Future[Any] | None = None

    def begin(self, number: int) -> None:
        """What is asked from now on is asked for this run of the child."""
        self._number = number
        self._answer = None

    async def previous(self, run: int) -> Any:
        """As of the database. Who asks again meanwhile waits for the same answer."""
        answer = self._answer
        if answer is None or answer.done():
            answer = self._answer = self._loop.create_future()
            self._say({"event": "previous", "run": self._number})
        return await asyncio.shield(answer)

    def hear(self, message: dict[str, Any]) -> None:
        """The node's answer. Thread-safe."""
        self._loop.call_soon_threadsafe(self._take, message)

    def _take(self, message: dict[str, Any]) -> None:
        answer = self._answer
        if message["run"] != self._number or answer is None or answer.done():
            return  # of a run that is over
        if message["error"] is not None:
            answer.set_exception(_error_from(message["error"]))
            answer.exception()  # the handler may wait for it no more
        else:
            answer.set_result(_row_from(message["row"]))


class AnswersChildren:
    """The node's side. Belongs to the thread that speaks with the children; ``wake`` is called,
    from any thread, when there are `answers`.
    """

    def __init__(self, source: Source, wake: Callable[[], None]) -> None:
        self._source = source
        self._wake = wake
        self._asking: set[tuple[ChildProcess, int]] = set()
        self._answers: deque[tuple[ChildProcess, dict[str, Any]]] = deque()

    def ask(self, child: ChildProcess, run: int, number: int) -> None:
        """For the run that is the child's ``number``-th; one question at a time."""
        if (child, number) in self._asking:
            return
        self._asking.add((child, number))
        reported = {"do": "previous", "run": number}
        if self._source is None:
            refusal = PgcronError("this node can't ask for the run before")
            self._keep(child, reported | {"row": None, "error": _error_members(refusal)})
            return
        database, loop = self._source
        asked = asyncio.run_coroutine_threadsafe(_answer(database, run), loop)
        asked.add_done_callback(
            lambda done: None if done.cancelled() else self._keep(child, reported | done.result())
        )

    def answers(self) -> Iterator[tuple[ChildProcess, dict[str, Any]]]:
        """Those that have come, for their children."""
        while self._answers:
            child, answer = self._answers.popleft()
            self._asking.discard((child, answer["run"]))
            yield child, answer

    def _keep(self, child: ChildProcess, answer: dict[str, Any]) -> None:
        self._answers.append((child, answer))
        self._wake()


async def _answer(database: AsksDatabase, run: int) -> dict[str, Any]:
    """As JSON values. Raises nothing."""
    try:
        row = await database.previous(run)
    except PgcronError as error:
        return {"row": None, "error": _error_members(error)}
    except Exception as error:
        reported = DatabaseUnavailable(
            f"the run before is not known: {type(error).__name__}: {error}"
        )
        return {"row": None, "error": _error_members(reported)}
    return {"row": None if row is None else _row_members(row), "error": None}


def _row_members(row: Any) -> dict[str, Any]:
    return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in dict(row).items()}


def _row_from(members: dict[str, Any] | None) -> dict[str, Any] | None:
    if members is None:
        return None
    return members | {name: datetime.fromisoformat(members[name]) for name in _TIMES}


def _error_members(error: PgcronError) -> dict[str, Any]:
    return {"kind": type(error).__name__, **error.as_json()}


def _error_from(members: dict[str, Any]) -> PgcronError:
    kind = getattr(errors, members["kind"], PgcronError)
    raised: PgcronError = kind(members["message"], members["detail"], members["hint"])
    return raised
