"""A program that leaves descendants behind in every way it can.

``family.py DIRECTORY stays|leaves``: each process writes its id into a file of DIRECTORY named
after its kind and then ignores SIGTERM for ever; with "leaves" the first one ends with status 0
once all are there.
"""

import os
import signal
import sys
from pathlib import Path

KINDS = ("child", "session", "daemon", "nameless")


def main() -> None:
    directory, stays = Path(sys.argv[1]), sys.argv[2] == "stays"
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready, there = os.pipe()
    for kind in KINDS:
        if os.fork() == 0:
            _be(kind, directory, there)
    for _ in KINDS:
        os.read(ready, 1)
    _announce(directory, "main")
    print("all are there", flush=True)
    while stays:
        signal.pause()


def _be(kind: str, directory: Path, there: int) -> None:
    if kind != "child":
        os.setsid()
    if kind in ("daemon", "nameless") and os.fork() != 0:
        os._exit(0)
    if kind == "nameless":  # nothing in its environment tells whose it is
        program = (
            "import os, signal, sys; os.write(int(sys.argv[1]), b'.')\nwhile True: signal.pause()"
        )
        os.set_inheritable(there, True)
        _announce(directory, kind)
        os.execve(sys.executable, [sys.executable, "-c", program, str(there)], {})
    _announce(directory, kind)
    os.write(there, b".")
    while True:
        signal.pause()


def _announce(directory: Path, kind: str) -> None:
    (directory / kind).write_text(f"{os.getpid()}\n")


if __name__ == "__main__":
    main()
