"""What the shell templates of the tests run: ``program.py SECONDS [family | once]``.

Writes a tick of evidence every twentieth of a second. ``family`` also starts a grandchild that
leaves its session and ignores SIGTERM, and ticks, too. ``once``: only the first attempt lasts.
"""

import os
import signal
import subprocess
import sys
import time

TICK_SECONDS = 0.05


def main() -> None:
    seconds, manner = float(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    environment = os.environ
    run, attempt = environment["PGCRON_RUN_ID"], environment["PGCRON_ATTEMPT"]
    token = environment["PGCRON_TOKEN"]
    if manner == "grandchild":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if manner == "family":
        command = [sys.executable, "-I", "-S", __file__, str(seconds), "grandchild"]
        subprocess.Popen(command, start_new_session=True)
    if manner == "once" and attempt != "1":
        seconds = 0.0
    print("the program begins", flush=True)
    print("a warning", file=sys.stderr, flush=True)
    note(run, attempt, token, "start")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(TICK_SECONDS)
        note(run, attempt, token, "tick")
    note(run, attempt, token, "end")


def note(*words: str) -> None:
    at = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    line = " ".join(words) + f" {at:.6f} {os.getpid()}\n"
    descriptor = os.open(os.environ["EVIDENCE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, line.encode())
    os.close(descriptor)


if __name__ == "__main__":
    main()
