"""The conformance suite, on the executors that are built in."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgcron_ha.executors.contract.base import Context, Executor, ExecutorServices
from tests.executors import conforming
from tests.executors.conforming import FOLDER
from tests.executors.http.calls import destination, no_desk
from tests.executors.http.service import JSON, Answer, Route, Service, hang
from tests.executors.running import NOWHERE, alive, no_link, readable_pid, template
from tests.product.client import child_program
from tests.product.executors import (
    MAX_LINE_BYTES,
    MAX_LINES,
    MAX_RESULT_BYTES,
    ChildPool,
    HttpExecutor,
    PythonExecutor,
    PythonHandler,
    ShellExecutor,
)
from tests.product.testing import ExecutorConformance, Sample

PAUSE_SECONDS = 0.01


class TestPython(ExecutorConformance):
    succeeds = Sample("py:succeeds")
    fails = Sample("py:fails")
    refused = Sample("py:succeeds", {"unknown": 1})
    lasts = Sample("py:lasts")
    talks = Sample("py:talks")
    returns_much = Sample("py:returns_much")
    can_kill = False

    @pytest.fixture(autouse=True)
    def _at_work(self) -> None:
        self.at_work: set[int] = set()

    def make(self, executor_services: ExecutorServices) -> Executor:
        async def lasts(ctx: Context) -> None:
            self.at_work.add(ctx.run_id)
            never = asyncio.get_running_loop().create_future()
            try:
                while True:
                    ctx.check()
                    await asyncio.wait({never}, timeout=PAUSE_SECONDS)
            finally:
                self.at_work.discard(ctx.run_id)

        def fails() -> None:
            raise ValueError("as it should")

        def talks() -> None:
            print("x" * (MAX_LINE_BYTES + 1))
            print("\n".join(["a\0b"] * (MAX_LINES + 5)))

        async def succeeds() -> None:
            pass

        def returns_much() -> str:
            return "x" * MAX_RESULT_BYTES

        functions: list[Any] = [lasts, fails, talks, succeeds, returns_much]
        registry = {each.__name__: PythonHandler(each.__name__, each) for each in functions}
        place = executor_services
        return PythonExecutor(registry, place)

    def is_at_work(self, context: Context) -> bool:
        return context.run_id in self.at_work


class TestIsolatedPython(ExecutorConformance):
    succeeds = Sample("py:succeeds")
    fails = Sample("py:fails")
    refused = Sample("py:succeeds", {"unknown": 1})
    lasts = Sample("py:lasts")
    insists = Sample("py:insists")
    talks = Sample("py:talks")
    returns_much = Sample("py:returns_much")
    slots = 3

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(FOLDER, str(tmp_path))
        self.folder = tmp_path

    def make(self, executor_services: ExecutorServices) -> Executor:
        program = child_program(["tests.executors.conforming:app"], NOWHERE, "pgcron")
        place, handlers = executor_services, conforming.app.handlers
        return ChildPool(handlers, program, place)

    def is_at_work(self, context: Context) -> bool:
        file = self.folder / str(context.run_id)
        # The process is kept for the next run, so what it does for this one is asked.
        begun = file.exists() and not file.with_suffix(".ended").exists()
        return begun and alive(int(file.read_text() or "0"))


class TestTasks(ExecutorConformance):
    succeeds = Sample("tasks:succeeds")
    fails = Sample("tasks:fails")
    refused = Sample("tasks:succeeds", {"unknown": 1})
    lasts = Sample("tasks:lasts")
    insists = Sample("tasks:insists")
    talks = Sample("tasks:talks")

    def make(self, executor_services: ExecutorServices) -> Executor:
        self.executor = conforming.Tasks(executor_services)
        return self.executor

    def is_at_work(self, context: Context) -> bool:
        return context.run_id in self.executor.at_work


class TestShell(ExecutorConformance):
    succeeds = Sample("shell:succeeds")
    fails = Sample("shell:fails")
    refused = Sample("shell:succeeds", {"unknown": 1})
    lasts = Sample("shell:lasts")
    insists = Sample("shell:insists")
    talks = Sample("shell:talks")
    slots = 16

    @pytest.fixture(autouse=True)
    def _pids(self, tmp_path: Path) -> None:
        self.pids = tmp_path

    def make(self, executor_services: ExecutorServices) -> Executor:
        note = f'echo $$ > "{self.pids}/$PGCRON_RUN_ID"; '
        much = f"print('x' * {MAX_LINE_BYTES + 1}); print('a\\0b\\n' * {MAX_LINES + 5})"
        templates = [
            template("true", name="succeeds"),
            template("false", name="fails"),
            template("sh", "-c", note + "exec sleep 60", name="lasts"),
            template("sh", "-c", f"trap '' TERM; {note} while :; do sleep 1; done", name="insists"),
            template(sys.executable, "-I", "-S", "-c", much, name="talks"),
        ]
        place = executor_services
        return ShellExecutor({each.name: each for each in templates}, place, no_link())

    def is_at_work(self, context: Context) -> bool:
        file = self.pids / str(context.run_id)
        return readable_pid(file) and alive(int(file.read_text()))


class TestHttp(ExecutorConformance):
    succeeds = Sample("http:succeeds")
    fails = Sample("http:fails")
    refused = Sample("http:refuses", {"unknown": 1})
    lasts = Sample("http:lasts")
    talks = Sample("http:talks")
    returns_much = Sample("http:returns_much")

    @pytest.fixture(autouse=True)
    def _service(self) -> Iterator[None]:
        much = b'"' + b"x" * MAX_RESULT_BYTES + b'"'
        text = b"a\0b\n" * (MAX_LINES + 5) + b"x" * MAX_LINE_BYTES * 2
        routes: dict[str, Route] = {
            "/succeeds": Answer(200, b"{}", {"Content-Type": JSON}),
            "/fails": Answer(500),
            "/refuses": Answer(200),
            "/lasts": hang,
            "/talks": Answer(200, text, {"Content-Type": "text/plain"}),
            "/returns_much": Answer(200, much, {"Content-Type": JSON}),
        }
        with Service(routes) as self.service:
            yield

    def make(self, executor_services: ExecutorServices) -> Executor:
        tables: dict[str, dict[str, Any]] = {"refuses": {"body": False}}
        names = [path.removeprefix("/") for path in self.service.routes]
        offered = {
            name: destination(
                f"{self.service.url}/{name}", name, connections=64, **tables.get(name, {})
            )
            for name in names
        }
        return HttpExecutor(offered, executor_services, no_desk())

    def is_at_work(self, context: Context) -> bool:
        # The service learns of a closed connection a moment later than the node that closed it.
        return str(context.run_id) in self.service.at_work and context._work is not None
