"""For people who write an executor: `conformance` shows whether it keeps the contract.

Needs pytest (``pip install "pgcron-ha[testing]"``); nothing of the product imports this package.
"""

import pytest

pytest.register_assert_rewrite("pgcron_ha.testing.conformance")
