"""engine.retention: policies, pins, faded memories, statistics, and forgetting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import get_args
from uuid import UUID

from shared_core.core.domain import MemoryKind, Scope
from shared_core.core.namespaces import (
    check_label,
    memories_namespace,
    path_of,
    rest_of,
    scope_path,
)
from shared_core.core.retention_policy import FADING, POLICIES, RetentionPolicy, Rules, Stage
from shared_core.core.shown import shown
from shared_core.core.validation import listed, names_of, number, optional_function, whole_number
from shared_core.errors import InvalidInput, NotFound
from shared_core.knowledge.reviving import revive
from shared_core.lifecycle import Handle
from shared_core.policies import retention
from shared_core.policies.timing import RULES
from shared_core.ports.operations import Row
from shared_core.ports.retention import Kept
from shared_core.ports.storage import Storage
from shared_core.retention import cleanup as cleanups, pages
from shared_core.retention.cleanup import (
    CleanupReport,
    ForgettingSchedule,
    Progress,
    RetentionReport,
)
from shared_core.retention.statistics import (
    HORIZONS,
    RetentionCurve,
    RetentionStats,
    curve_of,
    stats_of,
)

MOST = 1_000_000
MOST_DAYS = 36_500


class Retention:
    """Policies, stages and pins of memories.

    scope: one user; app: all users of an application; neither: all. schedule: applies the policies
    periodically.
    """

    def __init__(self, handle: Handle, schedule: ForgettingSchedule) -> None:
        self._handle = handle
        self._clock = handle.clock
        self.schedule = schedule

    async def policy(self, scope: Scope | None = None, *, app: str | None = None) -> Rules:
        """Return the effective policy of each kind of memory; None for a kind that never fades."""
        _check_target(scope, app)
        path = path_of(scope, app)
        storage = await self._handle.storage()
        [rows] = await storage.read(path, [RULES])
        return retention.effective_rules(rows, path)

    async def own_policy(self, scope: Scope | None = None, *, app: str | None = None) -> Rules:
        """Return the policies set for exactly this user or application, or for all, by kind."""
        _check_target(scope, app)
        path = path_of(scope, app)
        storage = await self._handle.storage()
        [rows] = await storage.read(path, [RULES])
        return retention.own_rules(rows, path)

    async def set_policy(
        self,
        policy: str | RetentionPolicy | Mapping[MemoryKind, RetentionPolicy | None] | None,
        scope: Scope | None = None,
        *,
        app: str | None = None,
        never: Sequence[MemoryKind] = (),
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Set how memories fade; return the number of memories with a new time of their next stage.

        The nearest policy of a kind counts: of the user, of the application, of all. If the call is
        interrupted, the next run of forgetting finishes it.

        Args:
            policy: a name of POLICIES or a RetentionPolicy, for turns, summaries and reflections,
                replaces all policies set here. A mapping sets some kinds (facts and items too; None
                for never) and keeps others. None inherits from the application, or from all.
            never: kinds that never fade.
            progress: called with the number of memories examined.
        """
        _check_target(scope, app)
        optional_function(progress, "progress")
        rules = None
        if policy is not None:
            rules = _rules(policy) | dict.fromkeys(kinds_named(never))
        elif never:
            raise InvalidInput(f"never={shown(never)} needs a policy: give a policy, too")
        of = list(rules) if rules and isinstance(policy, Mapping) else None
        storage = await self._handle.storage()
        path = path_of(scope, app)
        await storage.retention.set_retention_rules(path, rules, of)
        return await cleanups.retime(storage, path, progress)

    async def cleanup(
        self,
        scope: Scope,
        policy: RetentionPolicy | str = POLICIES["default"],
        *,
        dry_run: bool = False,
    ) -> CleanupReport:
        """Erase turns and summaries below a threshold now; engine.cleanup() explains the arguments.

        The days and thresholds of later stages do not count here, only in forget_faded().
        """
        scope_path(scope)
        rule = policy_named(policy) if isinstance(policy, str) else policy
        if not isinstance(rule, RetentionPolicy):
            raise InvalidInput(
                f"policy must be a RetentionPolicy or the name of one, got {type(rule).__name__}"
            )
        storage = await self._handle.storage()
        return await cleanups.cleanup(storage, self._clock, scope, rule, dry_run=dry_run)

    async def forget_faded(
        self,
        scope: Scope | None = None,
        *,
        app: str | None = None,
        dry_run: bool = False,
        limit: int = cleanups.LISTED,
        progress: Progress | None = None,
    ) -> RetentionReport:
        """Move due memories on by one stage, of ALL applications unless scope or app is set.

        The policies demote memories out of recall, compact (archive) them, or erase them for good.
        It touches only due memories, in short transactions; calls may run in parallel.

        Args:
            dry_run: only report what would move, and why.
            limit: maximum number of memories that a dry run lists; not_listed counts the others.
            progress: called with the numbers of memories done and due.

        Raises:
            Conflict: this clock is over an hour ahead of the database's, and would forget too much.
        """
        _check_target(scope, app)
        whole_number(limit, "limit", 0, MOST)
        optional_function(progress, "progress")
        storage = await self._handle.storage()
        if dry_run:
            return await cleanups.what_is_due(storage, self._clock, scope, app, limit=limit)
        return await cleanups.forget_faded(storage, self._clock, scope, app, progress=progress)

    async def unknown_keys(
        self, scope: Scope, keys: str | UUID | Sequence[str | UUID]
    ) -> Sequence[str]:
        """Return the keys and memory ids that match no memory of the scope, in order.

        forget(), pin(), unpin() and revive() pass over them.
        """
        _, names, rows = await self._named(scope, keys)
        return retention.unknown_names(rows, names)

    async def pin(self, scope: Scope, keys: str | UUID | Sequence[str | UUID]) -> int:
        """Pin memories by key or memory id, so that they never fade; return how many are pinned.

        Unknown keys are passed over. Demoted and archived memories come back into recall.
        """
        storage, ids = await self._ids(scope, keys)
        # Pin first: after that nothing moves the memory to its next stage.
        pinned = await storage.transact(
            scope_path(scope), partial(retention.pin, ids, self._clock())
        )
        await revive(storage, self._handle.embedding, scope, ids, self._clock)
        return len(pinned)

    async def unpin(self, scope: Scope, keys: str | UUID | Sequence[str | UUID]) -> int:
        """Let memories fade again by their policy; return how many were pinned.

        Unknown keys and memories without a pin are passed over.
        """
        storage, ids = await self._ids(scope, keys)
        tenant = scope_path(scope)
        return len(await storage.transact(tenant, partial(retention.unpin, tenant, ids)))

    async def revive(self, scope: Scope, keys: str | UUID | Sequence[str | UUID]) -> int:
        """Bring faded memories back into recall, as if read now; return how many came back.


        Unknown keys and memories in recall are passed over. Archived memories are embedded again.

        Args:
            keys: keys or memory ids.

        Raises:
            ModelUnavailable: while the embedder is down.
        """
        storage, ids = await self._ids(scope, keys)
        return len(await revive(storage, self._handle.embedding, scope, ids, self._clock))

    async def list_faded(
        self,
        scope: Scope,
        *,
        stages: Sequence[Stage] = ("demoted", "archived"),
        kinds: Sequence[MemoryKind] | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Kept]:
        """Return demoted and archived memories, which revive() can bring back, latest first."""
        for stage in listed(stages, "stages", '["demoted"]'):
            if stage not in ("demoted", "archived"):
                raise InvalidInput(f"stage {shown(stage)} is not known: take demoted or archived")
        whole_number(limit, "limit", 0, MOST)
        whole_number(offset, "offset", 0, MOST)
        tenant = scope_path(scope)
        known = None if kinds is None else kinds_named(kinds)
        storage = await self._handle.storage()
        return await storage.query(
            tenant, partial(retention.staged, tenant, stages, known, limit, offset)
        )

    async def stats(
        self,
        scope: Scope | None = None,
        *,
        app: str | None = None,
        days: Sequence[float] = HORIZONS,
    ) -> RetentionStats:
        """Return statistics by score, kind and stage, and how many memories fade within some days.


        It reads every memory of the user, application or database once.

        Args:
            days: horizons, each from 0 (due now).
        """
        _check_target(scope, app)
        horizons = [number(one, "days", 0, MOST_DAYS) for one in listed(days, "days", "[7, 30]")]
        storage = await self._handle.storage()
        now = self._clock()
        counted = await pages.counted(storage, path_of(scope, app), now, horizons)
        return stats_of(now, counted.rows(), counted.leaving)

    async def curve(
        self, scope: Scope, key: str | UUID, *, days_ahead: float | None = None, points: int = 120
    ) -> RetentionCurve:
        """Return the past score of a memory, and its future score if nobody reads it.

        Args:
            key: a key or memory id.
            days_ahead: days that the curve goes on. Default: until after its demotion.
            points: number of points.

        Raises:
            NotFound: for an unknown key.
        """
        if not isinstance(key, str | UUID):
            raise InvalidInput(f"key must be a key or memory id, got {shown(key)}")
        storage, ids = await self._ids(scope, key)
        tenant = scope_path(scope)
        kept = await storage.query(tenant, partial(retention.kept, tenant, ids[:1]))
        if not kept:
            raise NotFound(f"there is no memory {key!r} of {scope}: list_memories() shows keys")
        return curve_of(kept[0], self._clock(), days_ahead=days_ahead, points=points)

    async def _ids(
        self, scope: Scope, keys: str | UUID | Sequence[str | UUID]
    ) -> tuple[Storage, Sequence[UUID]]:
        storage, _, rows = await self._named(scope, keys)
        return storage, retention.named_ids(rows)

    async def _named(
        self, scope: Scope, keys: str | UUID | Sequence[str | UUID]
    ) -> tuple[Storage, Sequence[str], Sequence[Sequence[Row]]]:
        tenant, names = scope_path(scope), names_of(keys)
        storage = await self._handle.storage()
        namespace = rest_of(memories_namespace(scope))
        return storage, names, await storage.read(tenant, retention.select_named(namespace, names))


def policy_named(policy: str) -> RetentionPolicy:
    """Return a policy by its name. Raises InvalidInput for an unknown name."""
    if policy not in POLICIES:
        raise InvalidInput(
            f"retention policy {policy!r} is not known: take {', '.join(POLICIES)}, or a"
            " RetentionPolicy"
        )
    return POLICIES[policy]


def _rules(
    policy: str | RetentionPolicy | Mapping[MemoryKind, RetentionPolicy | None],
) -> dict[MemoryKind, RetentionPolicy | None]:
    if isinstance(policy, str):
        policy = policy_named(policy)
    if isinstance(policy, RetentionPolicy):
        return dict.fromkeys(FADING, policy)
    if not isinstance(policy, Mapping):
        raise InvalidInput(
            "policy must be a name, a RetentionPolicy, or a mapping of kinds to policies, got"
            f" {type(policy).__name__}"
        )
    for kind, rule in policy.items():
        if rule is not None and not isinstance(rule, RetentionPolicy):
            raise InvalidInput(
                f"the policy of {kind!r} must be a RetentionPolicy or None, got {shown(rule)}"
            )
    return {kind: policy[kind] for kind in kinds_named(list(policy))}


def kinds_named(kinds: Sequence[MemoryKind]) -> Sequence[MemoryKind]:
    """Return the kinds of memory unchanged. Raises InvalidInput for an unknown one."""
    known = get_args(MemoryKind)
    if isinstance(kinds, str):
        raise InvalidInput(f"kinds must be a list of {', '.join(known)}, got {shown(kinds)}")
    for kind in listed(kinds, "kinds", '["episodic"]'):
        if kind not in known:
            raise InvalidInput(f"kind {shown(kind)} is not known: take one of {', '.join(known)}")
    return kinds


def _check_target(scope: Scope | None, app: str | None) -> None:
    if scope is not None:
        scope_path(scope)
        if app is not None:
            raise InvalidInput("give a scope or an app, not both: a scope names its app")
    elif app is not None:
        check_label(app, "app")
