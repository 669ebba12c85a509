from __future__ import annotations

import pytest

from pgcron_ha.errors import ConfigError
from tests.product.db import load, require_plain


@pytest.mark.parametrize("name", ["information_schema", "pg_jobs", "PGCRON", "a b", "", "é"])
def test_a_schema_that_sql_would_have_to_quote_is_refused(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(name)

    assert name in str(refused.value)
    assert refused.value.detail
    assert refused.value.hint


@pytest.mark.parametrize("name", ["pgcron", "jobs", "jobs_2", "_x", "run", "history"])
def test_a_plain_name_is_taken(name: str) -> None:
    require_plain(name)
