"""A program that uses an embedded server, to be killed by tests.

``owner.py FOLDER``: answers each line of stdin with one line of JSON on stdout. The first answer,
to nothing, says which server it found. Lines: ``down``, ``fork`` (a child that stays), ``exit``.
It imports nothing but the launcher, so that any Python can run it.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from pgcron_ha.embedded import EmbeddedPostgres
from pgcron_ha.errors import PgcronError


def main() -> None:
    server = EmbeddedPostgres(sys.argv[1])
    try:
        server.up()
    except PgcronError as error:
        answer(**error.as_json())
        sys.exit(1)
    answer(postmaster=server.pid, dsn=server.dsn(), uid=os.geteuid())
    for line in sys.stdin:
        if line == "down\n":
            server.down()
            answer(down=True)
        elif line == "fork\n":
            child = os.fork()
            if child == 0:
                signal.pause()
            answer(child=child)
        else:
            break


def answer(**values: object) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
