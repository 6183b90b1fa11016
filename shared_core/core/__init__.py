"""Values, ids, JSON, time stamps, and the bridge from sync to async. Imports no other room."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
