"""Which texts an import embeds for the fields that had vectors."""

from __future__ import annotations

from shared_core.importing import texts_of_fields


def test_fields_are_read_only_where_they_are_plain_paths() -> None:
    value = {"a": {"b": "text"}, "list": ["x"], "n": 3}
    assert {"a.b": "text"} == texts_of_fields(value, {"a.b": None, "n": None})
    for fields in (
        {"$": None},
        {"list[*].0": None},
        {"{a,b}": None},
        {"gone": None},
        {"n.x": None},
    ):
        assert texts_of_fields(value, fields) is None
