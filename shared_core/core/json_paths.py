"""Where in a value stands what JSON has no word for. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

_Step = tuple[str, object]


def fault_path(value: object) -> str | None:
    """Return the path of the first part that JSON cannot say, e.g. 'value["a"][2]'; None if none.

    A part is one if it is no JSON type, NaN or infinite, a dict with a key that can be none in
    JSON, or holds itself.
    """
    above: list[tuple[str, object, Iterator[_Step]]] = []
    step: _Step | None = ("value", value)
    while step is not None:
        label, part = step
        if _is_fault(part) or any(part is holder for _, holder, _ in above):
            return "".join(name for name, _, _ in above) + label
        if isinstance(part, dict | list | tuple):
            above.append((label, part, _parts(part)))
        step = None
        while above and (step := next(above[-1][2], None)) is None:
            above.pop()
    return None


def _parts(holder: dict[object, object] | list[object] | tuple[object, ...]) -> Iterator[_Step]:
    if isinstance(holder, dict):
        for key, inner in holder.items():
            name = json.dumps(key, ensure_ascii=False) if isinstance(key, str) else repr(key)
            yield f"[{name}]", inner
    else:
        for place, inner in enumerate(holder):
            yield f"[{place}]", inner


def _is_fault(part: object) -> bool:
    if isinstance(part, float):
        return not math.isfinite(part)
    if isinstance(part, dict):
        return any(not isinstance(key, str | int | float | None) for key in part)
    return not isinstance(part, str | int | list | tuple | None)
