"""The demo as a real process, and looks at what it leaves on the machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.product.embedded import find_postmaster
from tests.waiting import wait_for

CHECKOUT = Path(__file__).parents[2]
_END_SECONDS = 120.0


class DemoProcess:
    """``pgcron-ha demo`` on a folder; what it prints is read while it runs."""

    def __init__(
        self,
        folder: Path,
        *arguments: object,
        environment: Mapping[str, str] | None = None,
        output: int = subprocess.PIPE,
        command: str = "demo",
        cwd: Path = CHECKOUT,
    ) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("PGCRON_")}
        given = ["--data", str(folder)] if command == "demo" else []
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pgcron_ha", command, *given, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=cwd,
            env={**own, "PYTHONUNBUFFERED": "1", **(environment or {})},
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        if self.process.stdout is not None:
            self._reader.start()

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return "".join(self._lines)

    def wait_for_output(self, pattern: str, deadline: float = _END_SECONDS) -> re.Match[str]:
        """The first match of the pattern in its output."""

        def look() -> re.Match[str] | None:
            found = re.search(pattern, self.output, re.MULTILINE)
            assert found or self.process.poll() is None, self.output
            return found

        found = wait_for(f"the demo prints {pattern!r}", look, deadline=deadline)
        assert found is not None
        return found

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        """As the terminal does with Ctrl-C: to every process of its group."""
        os.killpg(self.process.pid, number)

    def end(self) -> int:
        """Its exit code, when it has ended."""
        code = self.process.wait(_END_SECONDS)
        if self.process.stdout is not None:
            self._reader.join(_END_SECONDS)
        return code

    def close(self) -> None:
        """End it and what is left of it by force."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid in processes_about(self.folder):
            try:
                os.kill(pid, signal.SIGQUIT)
            except ProcessLookupError:
                pass
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.append(line)


def processes_about(folder: Path) -> list[int]:
    """Processes that name the folder on their command line, and its server."""
    named = [pid for pid, line in _command_lines() if str(folder) in line and pid != os.getpid()]
    server = find_postmaster(folder / "server" / "pgdata")
    return sorted({*named, *([server.pid] if server else [])})


def _command_lines() -> Iterator[tuple[int, str]]:
    if not Path("/proc/self").exists():
        command = ["ps", "-A", "-o", "pid=,args="]
        reported = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for line in reported.splitlines():
            pid, _, arguments = line.strip().partition(" ")
            yield int(pid), arguments
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield int(entry.parent.name), entry.read_bytes().decode(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
