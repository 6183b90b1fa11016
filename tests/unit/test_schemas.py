"""The two engines have the same tables and columns, with types that match."""

from __future__ import annotations

import pytest

from shared_core.storage.oceanbase.connection.columns import ColumnType, tables
from shared_core.storage.postgres.connection.operations import column_types

OF_POSTGRES = {"embeddings", "writes", "coordinator_writes", "memory_changes"}
OF_OCEANBASE = {"tenants", "writes", "embeddings"}  # the last stands for all vector tables
MATCHING = {
    "text": {ColumnType.TEXT, ColumnType.LONG_TEXT},
    "tsvector": {ColumnType.LONG_TEXT},
    "uuid": {ColumnType.UUID},
    "timestamptz": {ColumnType.MOMENT},
    "jsonb": {ColumnType.JSON},
    "json": {ColumnType.JSON},
    "text[]": {ColumnType.LIST},
    "boolean": {ColumnType.BOOLEAN},
    "smallint": {ColumnType.INTEGER},
    "integer": {ColumnType.INTEGER},
    "bigint": {ColumnType.INTEGER},
    "real": {ColumnType.NUMBER},
    "double precision": {ColumnType.NUMBER},
    "bytea": {ColumnType.BYTES, ColumnType.HASH},
}


def test_both_engines_have_the_same_tables() -> None:
    assert column_types().keys() - OF_POSTGRES == tables().keys() - OF_OCEANBASE


@pytest.mark.parametrize("table", sorted(column_types().keys() - OF_POSTGRES))
def test_a_table_has_the_same_columns_on_both_engines(table: str) -> None:
    postgres, oceanbase = column_types()[table], tables()[table].columns
    assert postgres.keys() == oceanbase.keys()
    for column, declared in postgres.items():
        assert oceanbase[column] in MATCHING[declared], column
