"""Every command that prints JSON, on a small cluster that works: which keys each of them prints."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.conftest import Answer, Cli
from tests.e2e.nodes import Cluster
from tests.entering import cookies, entered
from tests.golden.record import key_paths
from tests.waiting import wait_for

# Below these keys stand names that users give.
_GIVEN: Final = re.compile(r"\b(args|labels|result|settings)(\[\])?\.")
_FILE: Final = "schedules:\n  from-a-file: {spec: '@daily', handler: 'py:work'}\n"
_ARGS: Final = '{"seconds": 0}'


class Scenario:
    """One node and the command line; `keys` has what each command printed."""

    def __init__(self, cluster: Cluster, cli: Cli, folder: Path) -> None:
        self._cluster = cluster
        self._cli = cli
        self._folder = folder
        self.keys: dict[str, set[str]] = {}

    def play(self) -> None:
        """All commands, in an order in which each has something to print."""
        self._cluster.start("n1")
        self._schedules()
        self._occurrences()
        self._backfills()
        self._runs()
        self._workflows()
        self._limits()
        self._cluster_commands()
        self._secrets()
        self._users()
        self._ask("schedules verify", "fast")
        self._ask("schedules occurrences", "fast")
        self._ask("schedules delete", "at-night")
        self._ask("calendars delete", "holidays")

    def lines(self) -> Iterator[str]:
        """The record: a command, and below it the keys that it printed."""
        for command in sorted(self.keys):
            yield f"$ {command} --json"
            yield from (f"    {key}" for key in sorted(self.keys[command]))

    def _ask(self, command: str, *arguments: object) -> Answer:
        answer = self._cli(*command.split(), *arguments, "--json")
        printed = {
            path for row in _objects(answer.out) for path in key_paths(row) if not _is_given(path)
        }
        assert printed, f"{command} {arguments} printed nothing: {answer}"
        self.keys.setdefault(command, set()).update(printed)
        return answer

    def _schedules(self) -> None:
        days = self._folder / "days.txt"
        days.write_text("2030-12-25\n")
        file = self._folder / "file.yaml"
        file.write_text(_FILE)
        self._ask("calendars put", "holidays", days)
        self._ask("calendars list")
        self._ask("calendars show", "holidays")
        self._ask("next", "*/5 * * * *")
        self._ask("schedules put", "nightly", "0 3 * * *", "py:work", "--args", _ARGS)
        self._ask("schedules put", "fast", "every 1s", "py:work")
        self._ask("schedules list")
        self._ask("schedules show", "nightly")
        self._ask("schedules pause", "nightly", "--note", "why")
        self._ask("schedules resume", "nightly")
        self._ask("schedules put", "nightly", "0 4 * * *", "py:work")
        self._ask("schedules versions", "nightly")
        self._ask("schedules diff", "nightly")
        self._ask("schedules restore", "nightly", 1)
        self._ask("schedules apply", file)
        self._ask("schedules run-now", "nightly")

    def _occurrences(self) -> None:
        tomorrow = datetime.now(UTC).replace(hour=3, minute=0, second=0, microsecond=0)
        first, second = (f"{tomorrow + timedelta(days=each):%Y-%m-%dT%H:%M:%SZ}" for each in (1, 2))
        self._ask("schedules skip", "nightly", first, "--note", "why")
        self._ask("schedules why", "nightly", first)
        self._ask("schedules restore-occurrence", "nightly", first)
        self._ask("schedules edit-occurrence", "nightly", first, "--args", _ARGS)
        self._ask("schedules move", "nightly", second, second.replace("T03", "T05"))
        self._ask("schedules rename", "nightly", "at-night")

    def _backfills(self) -> None:
        now = datetime.now(UTC)
        since, until = (f"{now - timedelta(days=each):%Y-%m-%d}T00:00:00Z" for each in (400, 1))
        asked = self._ask("schedules backfill", "at-night", "--since", since, "--until", until)
        number = asked.rows[0]["backfill"]
        wait_for(
            "a run of it is shown", lambda: self._ask("backfills show", number).rows[0]["runs"]
        )
        for verb in ("pause", "resume", "stop"):
            self._ask(f"backfills {verb}", number)
        self._ask("backfills list")

    def _runs(self) -> None:
        run = self._enqueue("py:work")
        self._ask("runs watch", run)
        self._ask("runs list")
        self._ask("runs show", run)
        talks = self._folder / "talks"
        spoken = self._enqueue("py:talks", "--args", json.dumps({"path": str(talks)}))
        wait_for("a line is kept", lambda: self._cli("runs", "logs", spoken, "--json").out)
        self._ask("runs logs", spoken)
        self._ask("runs retry", run)
        later = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
        self._ask("runs cancel", self._enqueue("py:work", "--due-at", later))
        busy = self._enqueue("py:work", "--args", '{"seconds": 600}')
        wait_for("it runs", lambda: '"running"' in self._cli("runs", "show", busy, "--json").out)
        self._ask("runs kill", busy)
        failed = self._enqueue("py:fails", "--max-attempts", 1)
        wait_for("it is dead", lambda: failed in self._cli("dead", "list", "--json").out)
        self._ask("dead list")
        self._ask("dead groups")
        self._ask("dead redrive", failed)
        again = self._enqueue("py:fails", "--max-attempts", 1)
        wait_for("it is dead", lambda: again in self._cli("dead", "list", "--json").out)
        self._ask("dead archive", again)

    def _workflows(self) -> None:
        kinds = {"a": "approval", "b": "signal", "c": "approval", "d": "approval"}
        steps = [{"name": name, "wait_for": kind} for name, kind in kinds.items()]
        steps.append({"name": "e", "handler": "py:work", "after": "a"})
        with psycopg.connect(self._cluster.dsn) as connection:
            put = "SELECT pgcron.put_workflow('waits', %s)"
            connection.execute(put, (json.dumps({"steps": steps}),))
        run = self._start_workflow("waits")
        for verb in ("show", "graph", "why", "pause", "resume"):
            self._ask(f"workflows {verb}", run)
        self._ask("workflows set-args", run, "e", "--args", _ARGS)
        for verb, step in (("approve", "a"), ("signal", "b"), ("skip", "c"), ("succeed", "d")):
            self._ask(f"workflows {verb}", run, step)
        self._ask("workflows cancel", self._start_workflow("waits"))
        run = self._start_workflow("waits")
        self._ask("workflows clear", run, "d")
        self._ask("workflows kill", run)
        self._ask("workflows graph", "waits", "--mermaid")
        self._ask("workflows show", "waits")
        self._ask("workflows list")
        self._ask("workflows delete", "waits")

    def _start_workflow(self, name: str) -> int:
        run: int = self._ask("workflows start", name).rows[0]["run_id"]
        wait_for("it has begun", lambda: self._cli("workflows", "show", run, "--json").out)
        return run

    def _enqueue(self, handler: str, *options: object) -> str:
        return str(self._ask("enqueue", handler, *options).rows[0]["run_id"])

    def _limits(self) -> None:
        self._ask("cluster pause")
        self._ask("cluster resume")
        self._ask("queues set", "default", "--max-running", 100)
        self._ask("queues pause", "default")
        self._ask("queues resume", "default")
        self._ask("queues list")
        self._ask("queues demand", "default")
        self._ask("concurrency set", "customer-1", 2)
        self._ask("concurrency list")
        self._ask("concurrency delete", "customer-1")
        self._cli("schedules", "put", "on-sales", "on asset sales", "py:work")
        self._ask("assets list")
        self._ask("breakers set", "py:fails")
        self._ask("breakers list")
        self._ask("breakers reset", "py:fails")
        self._ask("breakers delete", "py:fails")
        self._ask("retention set", "30d", "--queue", "default")
        self._ask("retention list")
        self._ask("retention delete", "--queue", "default")
        listed = self._ask("audit list", "--kind", "retention").rows
        self._ask("audit export", "--after", listed[0]["id"] - 1)

    def _secrets(self) -> None:
        key = self._folder / "key"
        key.write_text(base64.b64encode(bytes(32)).decode())
        with self._cluster.configuration.open("a") as file:
            file.write(f'\n[secrets]\nkeys = ["file:{key}"]\n')
        run = self._enqueue("py:work")
        self._ask("secrets rotate")
        self._ask("secrets reveal", run)
        self._ask("erase", "--run", run, "--dry-run")
        self._ask("roles grant", "viewer", "--user", "ann", "--queue", "default")
        self._ask("roles list")
        self._ask("roles revoke", "viewer", "--user", "ann", "--queue", "default")
        self._ask("roles team", "queue", "default", "shop")
        self._ask("roles teams")

    def _users(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stdin", io.StringIO("correct horse\nbattery staple\n"))
            self._ask("users add", "alice", "--role", "admin")
            self._ask("users password", "alice")
        begin = (
            "SELECT pgcron.end_login('alice', 'oidc', NULL, NULL, '{}', sha256('x'), '1 h',"
            " '1 h', '127.0.0.1', '')"
        )
        with psycopg.connect(self._cluster.dsn, autocommit=True) as connection:
            connection.execute(begin)
        self._ask("users sessions")
        self._ask("users list")
        self._ask("users revoke", "alice")
        self._ask("users disable", "alice")
        self._ask("users enable", "alice")
        token = self._ask("tokens create", "deploy", "--owner", "alice").rows[0]["id"]
        self._ask("tokens list")
        self._ask("tokens revoke", token)
        self._ask("users remove", "alice")

    def _cluster_commands(self) -> None:
        self._ask("nodes list")
        self._ask("nodes cordon", "n1", "--note", "why")
        self._ask("nodes uncordon", "n1")
        self._ask("nodes drain", "n1")
        self._ask("nodes uncordon", "n1")
        self._ask("status")
        self._ask("storage")
        self._ask("doctor")
        self._ask("config")


def _objects(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _is_given(path: str) -> bool:
    return bool(_GIVEN.search(path))


def metrics(cluster: Cluster) -> Iterator[str]:
    """The metrics of a node with pages, by their names, with their labels."""
    node = cluster.spawn("n2", options=("--web", "127.0.0.1:0"))
    url = wait_for("it serves", lambda: entered(node.output()))
    assert url is not None
    wait_for("it has joined", node.has_joined)
    httpx.get(url, cookies=cookies(url))
    text = httpx.get(url + "metrics", cookies=cookies(url)).text
    for family in sorted(text_string_to_metric_families(text), key=lambda each: each.name):
        labels = sorted({label for sample in family.samples for label in sample.labels})
        yield f"metric {family.name} {family.type} {' '.join(labels)}".rstrip()
