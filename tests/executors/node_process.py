"""A process that has a shell executor and a lock, as a node does; for tests that kill or freeze it.

``python -m tests.executors.node_process DIRECTORY TTL``: runs family.py; renews its lease of TTL
seconds; writes the outcome's reason into DIRECTORY/outcome.
"""

import asyncio
import fcntl
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

from pgcron_ha.executors.contract.base import Context, Interrupted, Outcome
from pgcron_ha.operating_system import boottime
from tests.executors.running import Record, context, no_link, template
from tests.product.executors import ShellExecutor


def main() -> None:
    directory, ttl = Path(sys.argv[1]), float(sys.argv[2])
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    record = Record()

    def done(run: Context, outcome: Outcome) -> None:
        reason = outcome.reason if isinstance(outcome, Interrupted) else repr(outcome)
        (directory / "outcome").write_text(f"{reason}\n")
        record.done(run, outcome)

    family = template(
        sys.executable, str(Path(__file__).with_name("family.py")), str(directory), "stays"
    )
    place = replace(record.services(), done=done, inherit=(lock,), directory=directory)
    running = ShellExecutor({"t": family}, place, no_link())
    running.renew_lease(boottime() + ttl)
    run = context(1, "shell:t")
    running.start([run])
    pause = threading.Event()
    while run.run_id not in record.outcomes:
        running.renew_lease(boottime() + ttl)
        pause.wait(ttl / 6)
    asyncio.run(running.close(5))


if __name__ == "__main__":
    main()
