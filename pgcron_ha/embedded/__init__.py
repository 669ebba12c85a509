"""An embedded PostgreSQL: for `demo`, `dev` and tests, when no DSN is given.

One folder is one server, shared by any number of processes of one host. Each of them calls
`EmbeddedPostgres(folder).up()`; the first starts the server, the others find it running, and it is
stopped after the last one has gone, however it went.

What holds it together are three kinds of `flock`, which the kernel gives back when a process dies:

- ``users.lock``, shared: one for each process that uses the server. Nothing is counted, so a count
  can't be wrong after a ``kill -9``.
- ``keeper.lock``, exclusive: held by the keeper, a small process that is the parent of postgres
  (`shim`). It waits for ``users.lock`` to itself; when it gets it, nobody is left, and it stops the
  server. If the keeper is killed, the next `up()` restarts the server with another one.
- ``start.lock``, exclusive: held while somebody makes or starts the server.

Connections come through a unix socket only, with a password kept in a file of mode 0600. Root's
server runs as ``nobody``, or as the user who owns the folder (`directory`). Nothing outside the
folder is changed, except that a folder whose path is too long for a socket gets a private folder
for it in ``/tmp``. It needs no event loop and no driver: calls block.
"""

from pgcron_ha.embedded.binaries import Binaries, find_binaries
from pgcron_ha.embedded.directory import default_data_directory
from pgcron_ha.embedded.server import EmbeddedPostgres

__all__ = ["Binaries", "EmbeddedPostgres", "default_data_directory", "find_binaries"]
