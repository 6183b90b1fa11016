"""What happens to text before it is stored: secrets and personal data are masked or refused."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
