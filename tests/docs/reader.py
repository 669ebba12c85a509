"""Who follows a page: types its examples one after the other, in a folder of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from psycopg.conninfo import conninfo_to_dict

from pgcron_ha.embedded import find_binaries
from tests.docs.blocks import Block
from tests.house.checkout import ROOT
from tests.servers import free_port
from tests.waiting import wait_for

_MOST_SECONDS: Final = 240
_NOT_RUN: Final = "not run: "
# Pages name them; a machine that runs several pages at once needs others.
_PORTS: Final = ("8765", "8766", "18427")
_SH: Final = ("bash", "-euo", "pipefail")


class Reader:
    """Executes blocks; what it left running ends with `close`."""

    def __init__(self, folder: Path, dsn: str | None) -> None:
        self.folder = folder / "app"
        self.folder.mkdir()
        self._tools = find_binaries().tool("psql").parent
        self._environment = {**_own(), **self._places(), **(_database(dsn) if dsn else {})}
        self._left_running: list[subprocess.Popen[bytes]] = []

    def follow(self, found: list[Block]) -> None:
        """All of a page, in order; for each of its `_PORTS` another one that is free."""
        ports = {port: str(free_port()) for port in _PORTS}
        found = [replace(block, text=_with_ports(block.text, ports)) for block in found]
        for number, block in enumerate(found):
            after = found[number + 1] if number + 1 < len(found) else None
            shown = after.text if after is not None and after.language == "text" else "…"
            if block.words == "in another terminal":
                self._leave_running(block, shown)
            else:
                printed = self._do(block)
                assert is_as_shown(printed, shown), (
                    f"line {block.line}: shown\n{shown}\nprinted\n{printed}"
                )

    def close(self) -> None:
        """Ends what the page left running, and shows what it printed if the test failed."""
        for process in self._left_running:
            process.terminate()
        for process in self._left_running:
            process.wait(_MOST_SECONDS)
        for log in self.folder.glob("terminal-*.log"):
            print(f"{log.name}:\n{log.read_text()}")

    def _do(self, block: Block) -> str:
        """What it prints."""
        if block.is_drawing or block.language == "text" or block.words.startswith(_NOT_RUN):
            return ""
        if block.language == "sh":
            # In a file: a pkill of the page finds its own words in no command line.
            file = self.folder.parent / "typed.sh"
            file.write_text(block.text, encoding="utf-8")
            return self._run([*_SH, file], block, fails=block.words == "fails")
        if block.words:
            file = (self.folder / block.words).resolve()
            assert file.is_relative_to(self.folder.resolve()), f"line {block.line}: {block.words}"
            assert _NOT_RUN not in block.words, f"line {block.line}: {block.words}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
            return ""
        if block.language == "sql":
            psql: list[str | Path] = [self._tools / "psql", "-X", "-v", "ON_ERROR_STOP=1"]
            return self._run(psql, block, given=block.text)
        assert block.language == "python", f"line {block.line}: nobody executes '{block.language}'"
        return self._run([sys.executable, "-c", block.text], block)

    def _run(
        self, command: list[str | Path], block: Block, given: str = "", *, fails: bool = False
    ) -> str:
        done = subprocess.run(
            command,
            input=given,
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_MOST_SECONDS,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"line {block.line}:\n{block.text}\n{done.stdout}"
        return done.stdout

    def _leave_running(self, block: Block, shown: str) -> None:
        """Until the page ends; the next block is typed when it has printed what is shown."""
        file = self.folder / f"terminal-{block.line}.log"
        with file.open("wb") as log:
            process = subprocess.Popen(
                [*_SH, "-c", "exec " + block.text.strip()],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._left_running.append(process)

        def has_printed_it() -> bool:
            assert process.poll() is None, file.read_text()
            printed = file.read_text()
            return bool(printed) and is_as_shown(printed, f"{shown.rstrip()}\n…")

        wait_for(f"line {block.line}: {shown}", has_printed_it)

    def _places(self) -> Mapping[str, str]:
        home = self.folder.parent / "home"
        home.mkdir(exist_ok=True)
        programs = (Path(sys.executable).parent, self._tools)
        return {
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT),
            "PGCRON_HA_WEB_LISTEN": "127.0.0.1:0",
            "NO_COLOR": "1",
        }


def is_as_shown(printed: str, shown: str) -> bool:
    """Whether the output is the one of the page: ``…`` is anything within a line, a line of its own
    any lines; spaces at the ends of lines and empty lines at the end do not count.
    """
    parts = []
    for line in shown.rstrip().splitlines():
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(r".*?".join(map(re.escape, line.rstrip().split("…"))) + r" *\n")
    text = "".join(f"{line.rstrip()}\n" for line in printed.rstrip().splitlines())
    return re.fullmatch("".join(parts) + r"\n*", text) is not None


def _with_ports(text: str, ports: Mapping[str, str]) -> str:
    for shown, free in ports.items():
        text = text.replace(shown, free)
    return text


def _own() -> dict[str, str]:
    mine = ("PGCRON_", "XDG_", "PG")
    return {name: value for name, value in os.environ.items() if not name.startswith(mine)}


def _database(dsn: str) -> dict[str, str]:
    words = conninfo_to_dict(dsn)
    given = {f"PG{name.upper()}": str(words[name]) for name in ("host", "port", "user", "password")}
    return {"PGCRON_HA_DSN": dsn, "PGDATABASE": str(words["dbname"]), **given}
