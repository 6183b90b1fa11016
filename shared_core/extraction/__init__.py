"""Turn conversation turns into drafts of facts, statements and insights, by rules or a model."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
