"""What the hostile shell templates run: ``hostile_program.py CASE [ARG]``."""

import os
import resource
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    case, *rest = sys.argv[1:]
    if case == "floods":
        chunk = (b"x" * 1023 + b"\n") * 1024
        for _ in range(int(rest[0])):
            os.write(1, chunk)
    elif case == "leaves_a_daemon":
        _leave_a_daemon(Path(rest[0]))
    elif case == "closes_its_pipes":
        os.closerange(0, 3)
    elif case == "kills_its_supervisor":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    elif case == "fills_the_disk":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        with open(rest[0], "wb") as file:
            while True:
                file.write(bytes(1 << 16))
    elif case == "unresponsive":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(rest[0]).write_text(f"{os.getpid()}\n")
        while True:
            signal.pause()


def _leave_a_daemon(path: Path) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            path.write_text(f"{os.getpid()}\n")
            while True:
                signal.pause()
        os._exit(0)
    while not path.exists() or path.stat().st_size == 0:
        time.sleep(0.01)


if __name__ == "__main__":
    main()
