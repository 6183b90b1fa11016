"""Whether tests run in their long form, as every night."""

from __future__ import annotations

import os

LONG = os.environ.get("HIPPOCAMPUS_TEST_LONG", "") not in ("", "0")
