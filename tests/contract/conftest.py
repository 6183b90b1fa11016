"""Lets the tests of contracts, most of which need an empty store, take turns with databases."""

from __future__ import annotations

import emptied_databases

dsn = emptied_databases.dsn
