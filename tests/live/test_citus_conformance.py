"""Tier "live": the conformance suite of LangGraph's stores on HIPPOCAMPUS_TEST_CITUS_DSN.

The schema hippocampus of that database is dropped first. HIPPOCAMPUS_TEST_ENGINE=citus runs any
other test that takes the fixture `dsn` there (`-n 0`): most pass; those that read rows past row
security do not.
"""

from __future__ import annotations

import pytest
from citus_databases import CITUS_DSN, LIVE_TIMEOUT_S

from langgraph_store import PgHippocampusStore
from langgraph_store.conformance import INDEX, StoreSuite

pytestmark = [
    pytest.mark.skipif(not CITUS_DSN, reason="HIPPOCAMPUS_TEST_CITUS_DSN names no cluster"),
    pytest.mark.timeout(LIVE_TIMEOUT_S),
]


class TestPgHippocampusStoreOnCitus(StoreSuite):
    @pytest.fixture
    def store(self, citus):
        for dsn in citus.lend():
            with PgHippocampusStore(dsn, index=INDEX) as store:
                yield store
