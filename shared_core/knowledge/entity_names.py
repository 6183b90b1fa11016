"""Names of entities: how they are compared, and which aliases a merge makes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from shared_core.core.namespaces import check_label
from shared_core.errors import InvalidInput
from shared_core.nlp.text import MAX_NAME_BYTES, normalised
from shared_core.ports.graph import Alias


def entity_key(name: object, what: str) -> str:
    """Return a name as it is compared: case, width, spacing and closing punctuation do not count.

    Accents do: "Müller" and "Muller" may be two, and what was merged in error could not be told
    apart again; merge_aliases() makes them one. Raises InvalidInput for what is no name.
    """
    key = normalised(check_label(name, what))
    if not key or max(len(key.encode()), len(str(name).encode())) > MAX_NAME_BYTES:
        raise InvalidInput(
            f"{what} must be a name of at most {MAX_NAME_BYTES} bytes with more than punctuation,"
            f" not {name!r}"
        )
    return key


@dataclass(slots=True)
class AliasPlan:
    """Aliases to end, and to begin."""

    ended: list[UUID] = field(default_factory=list)
    added: list[Alias] = field(default_factory=list)


def plan_merge(
    name: str, given: Sequence[str], known: Sequence[Alias], new_id: Callable[[], UUID]
) -> AliasPlan:
    """Return what makes names stand for one entity, with all that they stood for.

    known: the current aliases of every group that one of the names is in. The entity is that of the
    first name; an entity that becomes an alias brings its own along.
    """
    by_key = {one.alias_key: one for one in known}
    own = by_key.get(normalised(name))
    root, called = (own.entity_key, own.entity) if own else (normalised(name), name)
    called = next((one.entity for one in known if one.entity_key == root), called)
    names: dict[str, str] = {}
    plan = AliasPlan()
    for alias in given:
        key = normalised(alias)
        group = by_key[key].entity_key if key in by_key else key
        if group == root:
            continue
        members = [one for one in known if one.entity_key == group]
        names.setdefault(group, next((one.entity for one in members), alias))
        for one in members:
            names.setdefault(one.alias_key, one.alias)
            if one.alias_id not in plan.ended:
                plan.ended.append(one.alias_id)
        names.setdefault(key, alias)
    plan.added = [
        Alias(alias_id=new_id(), alias_key=key, alias=alias, entity_key=root, entity=called)
        for key, alias in names.items()
    ]
    return plan


def plan_unmerge(
    name: str,
    given: Sequence[str] | None,
    known: Sequence[Alias],
    new_id: Callable[[], UUID],
) -> AliasPlan:
    """Return what takes aliases off an entity again; None for all of them.

    Without the very name that the others were merged into, these stay together under the first.
    """
    by_key = {one.alias_key: one for one in known}
    own = by_key.get(normalised(name))
    root = own.entity_key if own else normalised(name)
    members = [one for one in known if one.entity_key == root]
    leaving = None if given is None else {normalised(one) for one in given}
    if leaving is None or root not in leaving:
        gone = [one for one in members if leaving is None or one.alias_key in leaving]
        return AliasPlan(ended=[one.alias_id for one in gone])
    plan = AliasPlan(ended=[one.alias_id for one in members])
    staying = [one for one in members if one.alias_key not in leaving]
    if staying:
        first = staying[0]
        plan.added = [
            replace(one, alias_id=new_id(), entity_key=first.alias_key, entity=first.alias)
            for one in staying[1:]
        ]
    return plan
