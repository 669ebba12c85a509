"""What the shell template of the nodes runs: ``shell_program.py SECONDS KEY``; ticks meanwhile.

Started without site and our packages, so it writes the lines of ``record.py`` by itself.
"""

import json
import os
import sys
import time

TICK_SECONDS = 0.1


def main() -> None:
    seconds, concurrency_key = float(sys.argv[1]), sys.argv[2]
    environment = os.environ
    run, fence = int(environment["PGCRON_RUN_ID"]), int(environment["PGCRON_FENCE"])
    claim = {
        "run": run,
        "attempt": int(environment["PGCRON_ATTEMPT"]),
        "fence": fence,
        "token": environment["PGCRON_TOKEN"],
        "handler": "shell:program",
        "key": environment["PGCRON_IDEMPOTENCY_KEY"],
    }
    note(
        "start",
        node=environment["CHAOS_NODE"],
        concurrency_key=concurrency_key if concurrency_key != "none" else None,
        **claim,
    )
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(TICK_SECONDS, seconds))
        note("tick", run=run, fence=fence)
    note("end", run=run, fence=fence)


def note(kind: str, **facts: object) -> None:
    at = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    line = json.dumps({"kind": kind, "at": at, "pid": os.getpid(), **facts}) + "\n"
    path = os.environ["CHAOS_EVIDENCE"]
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, line.encode())
    os.close(descriptor)


if __name__ == "__main__":
    main()
