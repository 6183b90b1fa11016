"""Paths keep namespaces apart, whatever the labels hold."""

import pytest
from every_case import every_case
from hypothesis import given, strategies as st

from langgraph_store.labels import from_label, from_labels, memories_namespace, to_label, to_labels
from shared_core import InvalidInput, Scope
from shared_core.core import namespaces as paths

storable = st.characters(exclude_characters="\x00", exclude_categories=["Cs"])
labels = st.text(storable, min_size=1) | st.text("%/.25EF", min_size=1, max_size=8)
namespaces = st.lists(labels, max_size=5).map(tuple)
# Half of all pairs are a namespace and one below it: drawn apart, that hardly ever happens.
pairs = st.tuples(namespaces, namespaces) | st.tuples(namespaces, namespaces).map(
    lambda two: (two[0], two[0] + two[1])
)


@given(namespaces)
def test_a_path_gives_its_namespace_back_and_begins_with_its_tenant(namespace):
    assert namespace == paths.from_path(paths.to_path(namespace))
    assert paths.to_path(namespace).startswith(paths.tenant_of(namespace))


@given(pairs)
def test_paths_share_a_prefix_as_namespaces_do_and_a_range_holds_what_lies_below(two):
    one, other = two
    assert (other[: len(one)] == one) is paths.to_path(other).startswith(paths.to_path(one))
    one, other = two
    path, candidate = paths.to_path(one).encode(), paths.to_path(other).encode()
    end = paths.path_end(paths.to_path(one)).encode()
    assert (path <= candidate < end) is candidate.startswith(path)


@given(st.lists(namespaces, min_size=1, max_size=4))
def test_the_common_prefix_is_shared_by_all_and_the_longest(many):
    shared = paths.common_prefix(many)
    assert all(one[: len(shared)] == shared for one in many)
    longer = {one[: len(shared) + 1] for one in many}
    assert len(longer) > 1 or shared in many


@given(labels, labels)
def test_labels_and_parts_are_one_to_one(one, other):
    assert one == from_label(to_label(one))
    assert "." not in to_label(one)
    assert (one == other) is (to_label(one) == to_label(other))


@given(st.text(storable, min_size=1).filter(lambda text: "." not in text))
def test_every_legal_label_survives_the_way_through_the_store(label):
    assert (label,) == to_labels(from_labels((label,)))


@every_case(("alice", "alice"), ("a@b.com", "a@b%2Ecom"), ("100%", "100%"), ("a%2Eb", "a%252Eb"))
def test_only_dots_are_escaped_in_a_label(user, label):
    assert ("app", label, "memories") == memories_namespace("app", user)


@every_case(
    Scope("", "u"), Scope("a", ""), Scope("a\x00", "u"), Scope("a", "\ud800"), Scope("a", None)
)  # type: ignore[arg-type]  # fmt: skip
def test_a_scope_that_cannot_be_stored_is_named(scope):
    with pytest.raises(InvalidInput, match="app_name|user_id"):
        paths.scope_path(scope)


def test_scopes_that_look_alike_are_different_tenants():
    alike = [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("a", "c"), ("A", "c"), ("a ", "c")]
    assert len(alike) == len({paths.scope_path(Scope(*pair)) for pair in alike})
