"""A query becomes ranked hits: candidates, features, ranking, reranking, time slices."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
