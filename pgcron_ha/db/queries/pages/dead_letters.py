"""What the page and the commands of dead letters read: ``sql/pages_dead_letters.sql``."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.queries.rows import Query

# Causes come from this many of the newest letters; a filter searches no further at once.
LOOK: Final = 10_000
PAGE_ROWS: Final = 25
# ``open``: neither redriven nor archived.
STATES: Final = ("open", "redriven", "archived", "all")


groups: Final = Query("page_letter_groups", look=LOOK, limit=50)
"""Letters by handler, error class and fingerprint, open first, then the newest.

``state`` is of `STATES`; what else a letter has to have (None: anything): ``handler``,
``error_class`` ("" for none), ``fingerprint``, ``queue``, ``schedule``, ``tags``, ``owner`` (as
`RunFilter` has it). `redrivable` ones are open and not lost. Counted among the newest `LOOK`.
"""

letters: Final = Query("page_letters", look=LOOK, text=2_000, limit=PAGE_ROWS + 1)
"""Letters one by one, newest first, after that of the run ``before`` (None: from the first); chosen
as `groups`, and those that died ``since`` and before ``until``. One more than a page has.

`redriven_state` is what came of the redriven (None: retention removed it). At most `LOOK` letters
are searched. Of an error and of args it has as many characters as ``text`` says; the run's page
shows more.
"""
