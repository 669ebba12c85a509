"""``python -m pgcron_ha`` is ``pgcron-ha``."""

import sys

from pgcron_ha.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
