"""The storage port on OceanBase: SeekDB embedded, a SeekDB server, or a cluster."""
