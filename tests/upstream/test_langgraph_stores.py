"""The stores that ship with LangGraph in the suite for stores: who differs where, and why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import AsyncPostgresStore, PostgresStore

from langgraph_store.conformance import StoreSuite
from langgraph_store.conformance.loops import Serving

try:
    import pysqlite3
except ModuleNotFoundError:
    pysqlite3 = None


def _installed(package: str, prefix: str) -> bool:
    try:
        return version(package).startswith(prefix)
    except PackageNotFoundError:
        return False


pytestmark = [
    pytest.mark.upstream,
    pytest.mark.skipif(
        not version("langgraph-checkpoint").startswith("4.3.")
        or not version("langgraph-checkpoint-postgres").startswith("3.2."),
        reason="divergences are those of langgraph-checkpoint 4.3 and its PostgreSQL store 3.2",
    ),
]

# Why tests of the suite fail, where one reason is shared.
KEEPS_OBJECTS = "keeps Python objects as they are, whatever they are"
OLD_VECTORS = "vectors of an earlier put stay"
AS_TEXT = "compares numbers as texts"
ONE_FOR_ALL = "one bad operation undoes the whole batch"
DOLLAR = "knows '$' in its configuration, not in the index of a put"
NO_JSON = "raises an error of the database: JSON has no such number"
WITH_VECTOR = "a query finds only items with a vector"
NO_OMIT = "knows no omit_expired: expired items are read until they are swept"
NO_BOUND = "a negative limit is none"
WHOLE_SECONDS = "times are whole seconds"
FEW_CANDIDATES = "counts pages among too few candidates"
TIES = "equal scores and times have no order"


class TestInMemoryStore(StoreSuite):
    unsupported = {"distances": "cosine only", "operators": "BaseStore's six only",
        "ttl": "not implemented"}  # fmt: skip
    divergences = {
        "test_a_bad_call_leaves_those_made_with_it_alone": KEEPS_OBJECTS,
        "test_a_bad_operation_is_an_error[label]": "checked by the methods, not by batch",
        "test_a_bad_operation_is_an_error[limit]": "a negative bound counts from the end",
        "test_a_bad_operation_is_an_error[value]": KEEPS_OBJECTS,
        "test_a_bad_operation_leaves_the_writes_of_others_alone[filter]": ONE_FOR_ALL,
        "test_a_bad_operation_leaves_the_writes_of_others_alone[value]": KEEPS_OBJECTS,
        "test_a_condition_may_be_one_bare_label": "reads a bare label as its letters",
        "test_a_filter_finds_what_it_says[$gt missing]": "raises TypeError",
        "test_a_filter_finds_what_it_says[$gt other type]": "raises TypeError",
        "test_a_filter_finds_what_it_says[$gt text]": "compares numbers only",
        "test_a_filter_finds_what_it_says[true is not one]": "True is 1 in Python",
        "test_a_filter_that_makes_no_sense_is_an_error[$and of none]": "finds nothing",
        "test_a_filter_that_makes_no_sense_is_an_error[unknown at the top]": "finds nothing",
        "test_a_list_is_a_namespace_too": "a namespace must be hashable",
        "test_a_list_that_shrinks_is_not_found_by_what_it_lost": OLD_VECTORS,
        "test_a_listing_is_newest_first_and_has_no_score": "lists in the order of first puts",
        "test_a_negative_bound_is_an_error": "counts from the end",
        "test_a_value_belongs_to_the_store": "keeps and returns the caller's own dict",
        "test_a_zero_vector_scores_no_nan": "divides by zero",
        "test_an_empty_namespace_is_not_listed": "keeps the name of an empty namespace",
        "test_an_item_put_again_without_index_is_not_found_by_its_old_text": OLD_VECTORS,
        "test_an_update_keeps_the_birth_and_moves_the_time": "an update is born anew",
        "test_null_is_a_value_and_a_missing_key_is_none": "a missing key equals null",
        "test_pages_of_any_length_are_cut_from_one_order": (
            "a batch with one text in several items raises ValueError"
        ),
        "test_pages_of_a_query_hold_items_without_a_vector_once": (
            "each page begins anew with the items without a vector"
        ),
        "test_paths_leave_out_what_they_do_not_name": "two equal texts raise ValueError",
        "test_paths_name_what_is_embedded[whole]": DOLLAR,
        "test_what_json_cannot_hold_is_refused": KEEPS_OBJECTS,
    }

    @pytest.fixture
    def factory(self):
        return lambda index: InMemoryStore(index=index)


class TestPostgresStore(StoreSuite):
    unsupported = {"operators": "BaseStore's six only"}
    divergences = {
        "test_a_bad_operation_leaves_the_writes_of_others_alone": ONE_FOR_ALL,
        "test_a_batch_may_need_more_values_than_a_statement_binds": "binds every value on its own",
        "test_a_condition_may_be_one_bare_label": "reads a bare label as its letters",
        "test_a_filter_compares_with_infinity_and_nan[$eq inf]": NO_JSON,
        "test_a_filter_compares_with_infinity_and_nan[$lt NaN]": AS_TEXT,
        "test_a_filter_compares_with_infinity_and_nan[$lte NaN]": AS_TEXT,
        "test_a_filter_compares_with_infinity_and_nan[$ne NaN]": NO_JSON,
        "test_a_filter_compares_with_infinity_and_nan[$ne inf]": NO_JSON,
        "test_a_filter_compares_with_infinity_and_nan[between]": AS_TEXT,
        "test_a_filter_finds_what_it_says[$gt other type]": AS_TEXT,
        "test_a_filter_finds_what_it_says[$gt]": AS_TEXT,
        "test_a_filter_finds_what_it_says[$gte]": AS_TEXT,
        "test_a_filter_finds_what_it_says[$lt]": AS_TEXT,
        "test_a_filter_finds_what_it_says[$lte]": AS_TEXT,
        "test_a_filter_finds_what_it_says[$ne missing]": "drops what has no such key",
        "test_a_filter_finds_what_it_says[between]": AS_TEXT,
        "test_a_filter_finds_what_it_says[nested operator]": "raises ValueError",
        "test_a_filter_finds_what_it_says[nested]": "raises ValueError",
        "test_a_filter_that_makes_no_sense_is_an_error[$and of none]": "finds nothing",
        "test_a_filter_that_makes_no_sense_is_an_error[no number]": "finds nothing",
        "test_a_filter_that_makes_no_sense_is_an_error[unknown at the top]": "finds nothing",
        "test_a_list_is_a_namespace_too": "a namespace must be hashable",
        "test_a_list_that_shrinks_is_not_found_by_what_it_lost": OLD_VECTORS,
        "test_a_zero_vector_scores_no_nan": "the distance to a zero vector is NaN",
        "test_an_item_put_again_without_index_is_not_found_by_its_old_text": OLD_VECTORS,
        "test_items_without_a_vector_fill_a_page": WITH_VECTOR,
        "test_nul_in_a_key_is_refused_or_kept": "raises an error of the driver",
        "test_nul_in_a_value_does_not_lose_it": "raises an error of the driver",
        "test_null_is_a_value_and_a_missing_key_is_none": "drops what has no such key",
        "test_pages_hold_every_item_once": TIES,
        "test_pages_of_a_query_hold_items_without_a_vector_once": WITH_VECTOR,
        "test_pages_of_any_length_are_cut_from_one_order": TIES,
        "test_paths_name_what_is_embedded[whole]": DOLLAR,
        "test_reading_gives_the_full_time_again": "a read rounds the time to live to whole minutes",
    }

    @pytest.fixture
    def factory(self, empty_dsn):
        @contextmanager
        def opened(**options: Any) -> Iterator[BaseStore]:
            with PostgresStore.from_conn_string(empty_dsn, **options) as store:
                store.setup()
                yield store

        return opened


class TestAsyncPostgresStore(Serving):
    unsupported = {"sync_on_loop": "raises InvalidStateError"}
    divergences = {
        "test_a_bad_call_leaves_those_made_with_it_alone": "one bad call fails its whole batch",
        "test_it_serves_a_second_event_loop": "belongs to the loop that opened it",
    }

    @pytest.fixture
    async def store(self, empty_dsn):
        async with AsyncPostgresStore.from_conn_string(empty_dsn) as store:
            await store.setup()
            yield store


@pytest.mark.skipif(
    not _installed("langgraph-checkpoint-sqlite", "3.1.") or pysqlite3 is None,
    reason="needs langgraph-checkpoint-sqlite 3.1 and a SQLite that loads extensions",
)
class TestSqliteStore(StoreSuite):
    unsupported = {"async": "raises NotImplementedError", "operators": "BaseStore's six only"}
    divergences = {
        "test_a_bad_operation_is_an_error[limit]": NO_BOUND,
        "test_a_bad_operation_leaves_the_writes_of_others_alone[filter]": ONE_FOR_ALL,
        "test_a_bad_operation_leaves_the_writes_of_others_alone[label]": ONE_FOR_ALL,
        "test_a_bad_operation_leaves_the_writes_of_others_alone[value]": ONE_FOR_ALL,
        "test_a_condition_may_be_one_bare_label": "reads a bare label as its letters",
        "test_a_filter_compares_with_infinity_and_nan[$ne NaN]": "NaN becomes null",
        "test_a_filter_finds_what_it_says[$ne missing]": "drops what has no such key",
        "test_a_filter_finds_what_it_says[dotted key is no path]": "a dot is a path",
        "test_a_filter_finds_what_it_says[dotted key]": "a dot is a path",
        "test_a_filter_finds_what_it_says[nested operator]": "raises ValueError",
        "test_a_filter_finds_what_it_says[nested]": "raises ValueError",
        "test_a_filter_finds_what_it_says[true is not one]": "True is 1 in SQLite",
        "test_a_filter_that_makes_no_sense_is_an_error[no number]": "finds nothing",
        "test_a_list_is_a_namespace_too": "a namespace must be hashable",
        "test_a_list_that_shrinks_is_not_found_by_what_it_lost": OLD_VECTORS,
        "test_a_listing_is_newest_first_and_has_no_score": WHOLE_SECONDS,
        "test_a_negative_bound_is_an_error": NO_BOUND,
        "test_a_read_may_leave_the_time_as_it_is": NO_OMIT,
        "test_an_expired_item_is_nowhere": NO_OMIT,
        "test_an_item_put_again_without_index_is_not_found_by_its_old_text": OLD_VECTORS,
        "test_an_update_keeps_the_birth_and_moves_the_time": WHOLE_SECONDS,
        "test_expired_items_take_no_place_on_a_page": NO_OMIT,
        "test_items_without_a_vector_fill_a_page": WITH_VECTOR,
        "test_null_is_a_value_and_a_missing_key_is_none": "a missing key equals null",
        "test_pages_hold_every_item_once[words]": FEW_CANDIDATES,
        "test_pages_of_a_query_hold_items_without_a_vector_once": WITH_VECTOR,
        "test_pages_of_any_length_are_cut_from_one_order": FEW_CANDIDATES,
        "test_paths_name_what_is_embedded[whole]": DOLLAR,
        "test_reading_brings_nothing_back_that_expired": NO_OMIT,
        "test_times_carry_their_offset_and_are_now": "times are naive",
        "test_values_and_names_in_a_filter_are_no_sql": "refuses names beyond letters and digits",
        "test_vectors_rank_by_the_distance_of_the_configuration[inner product]": (
            "takes the sum of absolute differences"
        ),
        "test_vectors_rank_by_the_distance_of_the_configuration[l2]": "ranks the farthest first",
        "test_what_json_cannot_hold_is_refused[NaN]": "keeps NaN as null",
        "test_what_json_cannot_hold_is_refused[datetime]": "keeps a date as a text",
    }

    @pytest.fixture
    def factory(self):
        @contextmanager
        def opened(index: Any, ttl: Any = None) -> Iterator[BaseStore]:
            from langgraph.store.sqlite import SqliteStore

            connection = pysqlite3.connect(
                ":memory:", check_same_thread=False, isolation_level=None
            )
            # It reads the paths from another key of the configuration.
            config = {**index, "text_fields": index["fields"]}
            with closing(connection):
                store = SqliteStore(connection, index=config, ttl=ttl)
                store.setup()
                yield store

        return opened
