"""Rules over stored rows, as generators that yield operations: rows in, operations out. Pure."""
