"""How memories fade and go: policies, cleanup, deletion, erasure with receipts, statistics."""
