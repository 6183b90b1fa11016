"""Which engine a uri names. Pure."""

from __future__ import annotations

from typing import Final

SCHEMES: Final = ("seekdb", "oceanbase")
"""URI schemes of SeekDB and OceanBase."""


def is_oceanbase(uri: str) -> bool:
    """Tell whether uri names an OceanBase, by its scheme."""
    return uri.partition("://")[0] in SCHEMES and "://" in uri
