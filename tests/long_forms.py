"""Whether tests run in their long form, as every night."""

import os

LONG = bool(os.environ.get("HIPPOCAMPUS_LONG"))
