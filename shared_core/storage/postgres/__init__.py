"""The storage port on PostgreSQL: named statements in `sql/`, one message per call."""
