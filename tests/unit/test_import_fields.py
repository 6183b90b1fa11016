"""Which texts an import embeds for the fields that had vectors."""

from langgraph.store.base import get_text_at_path, tokenize_path

from langgraph_store.operations import text_of_field
from shared_core.transfer.importing import texts_of_fields


def test_fields_are_read_at_their_paths():
    value = {"a": {"b": "text"}, "list": ["x"], "n": 3, "two": [{"b": "one"}, {"b": "other"}]}
    for fields, texts in (
        ({"a.b"}, {"a.b": "text"}),
        ({"a.b", "gone", "n.x"}, {"a.b": "text"}),
        ({"list[*]"}, {"list[*]": "x"}),
        ({"two[*].b.0", "two[*].b.1"}, {"two[*].b.0": "one", "two[*].b.1": "other"}),
        ({"two[-1].b"}, {"two[-1].b": "other"}),
        ({"n"}, {"n": "3"}),
        ({"$", "a.b"}, {"$": "a.b: text\nlist: x\nn: 3\ntwo.b: one\ntwo.b: other", "a.b": "text"}),
    ):
        assert texts == texts_of_fields(value, fields, text_of_field)
    for unknown in ({"$"}, {"gone"}, {"n.x"}, {"list[*].0"}, {"two[*].b.2"}, set[str]()):
        assert texts_of_fields(value, unknown, text_of_field) is None


def test_every_name_of_the_reference_is_understood():
    value = {"text": "t", "a": [{"b": "x"}, {"b": "y"}]}
    for path in ("text", "a[*].b", "a[0].b", "a.*.b", "a[*]", "a", "{text,a}", "*"):
        texts = get_text_at_path(value, tokenize_path(path))
        assert texts
        for number, text in enumerate(texts):
            name = f"{path}.{number}" if len(texts) > 1 else path
            assert text == text_of_field(value, name)
