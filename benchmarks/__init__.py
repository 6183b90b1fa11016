"""Speed of the LangGraph store, next to its peer and to bare SQL: python -m benchmarks.store."""
