"""Shows a caller's value in an error message. Pure."""

from __future__ import annotations

MOST_SHOWN = 80


def shown(value: object, most: int = MOST_SHOWN) -> str:
    """Return the beginning of repr(value), or its type if Python cannot write the value.

    That is so for values that are nested too deep, and for whole numbers with too many digits.
    """
    try:
        return repr(value)[:most]
    except (RecursionError, ValueError):
        return f"({type(value).__name__}, too deep or too long to show)"
