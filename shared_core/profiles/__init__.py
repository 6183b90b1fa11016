"""Versioned profiles of users and agents, made of memories, and theory of mind."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
