"""From a URI to a migrated SeekDB or OceanBase: threads, transactions, retries."""
