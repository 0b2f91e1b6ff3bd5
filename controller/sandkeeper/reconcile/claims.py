"""Which Sandboxes belong to which runtime key, kept up to date as objects come and go.

A Sandbox is indexed under the key that it resolves to and under the one that its status records; which of the two it
belongs to at a given moment is decided by :func:`sandkeeper.lifecycle.binding.bound_key` when a pass looks at it. A
Sandbox that resolves to no key (it is not sandboxed, or its policy is gone) has a private one, under which there is
never a runtime, so that every Sandbox has a key and is looked at in the same way.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.cluster.caches import Cache, ObjectId
from sandkeeper.config.differences import Differences
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.levels import built_in_level, merge_windows
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.config.outcomes import Outcomes
from sandkeeper.config.resolution import Problem, Resolution
from sandkeeper.config.resolve import resolve
from sandkeeper.reconcile.objects import NamespaceObject, PolicyObject, SandboxObject
from sandkeeper.reconcile.tally import Tally
from sandkeeper.runtimes.protocol import Owner

__all__ = ["Claim", "Claims", "is_private"]

_PRIVATE = "object:"


def is_private(key: RuntimeKey) -> bool:
    """Whether the key stands for one Sandbox without a runtime."""
    return key.scope.startswith(_PRIVATE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One Sandbox, and what it comes down to."""

    sandbox: SandboxObject
    resolution: Resolution
    resolved: RuntimeKey
    """The key that it resolves to, or its private one."""
    recorded: RuntimeKey | None
    """The key that its status records."""
    changed: tuple[str, ...] = field(default=(), compare=False)
    """Fields that were changed since what runs was made, as far as this process saw it. For logs alone."""

    @property
    def keys(self) -> frozenset[RuntimeKey]:
        """Under which it is indexed."""
        if self.recorded is None or self.recorded == self.resolved:
            return frozenset((self.resolved,))
        return frozenset((self.resolved, self.recorded))


def _nobody(_: object) -> None:
    """Tell nobody."""


class Claims:
    """The index. ``enqueue`` is called with every key that a change of a Sandbox may concern.

    ``enqueue_later`` is, where a change of something else concerns it, which may be thousands at once; by default it is
    the same.
    """

    def __init__(
        self,
        config: OperatorConfig,
        *,
        enqueue: Callable[[RuntimeKey], None],
        enqueue_later: Callable[[RuntimeKey], None] | None = None,
        tally: Tally | None = None,
    ) -> None:
        self._config = config
        self._enqueue = enqueue
        self._enqueue_later = enqueue_later or enqueue
        self._tally = tally
        self.on_indexed: Callable[[RuntimeKey], None] = _nobody
        """Called with every key of which a claim has come, changed or gone, whoever changed it."""
        self.on_policy: Callable[[str], None] = _nobody
        """Called with the full name of a policy that came, says something else, or went."""
        self._by_id: dict[ObjectId, Claim] = {}
        self._by_key: dict[RuntimeKey, set[ObjectId]] = defaultdict(set)
        self._policies: dict[tuple[str, str], AgentSandboxPolicySpec | Problem] = {}
        self._outcomes = Outcomes()
        self._differences = Differences()
        self.namespaces = Cache("Namespaces", parse=NamespaceObject.parse, on_change=self._namespace_changed)
        self.policies = Cache(
            "AgentSandboxPolicies", parse=PolicyObject.parse, on_change=self._policy_changed
        )
        self.sandboxes = Cache("Sandboxes", parse=SandboxObject.parse, on_change=self._sandbox_changed)

    def of(self, key: RuntimeKey) -> tuple[Claim, ...]:
        """Return every claim that is indexed under the key."""
        return tuple(self._by_id[object_id] for object_id in sorted(self._by_key.get(key, ())))

    def get(self, object_id: ObjectId) -> Claim | None:
        """Return the claim of one Sandbox."""
        return self._by_id.get(object_id)

    def is_live(self, namespace: str, owner: Owner) -> bool:
        """Whether a Sandbox of this name and UID is there."""
        claim = self._by_id.get((namespace, owner.name))
        return claim is not None and claim.sandbox.uid == owner.uid

    def keys(self) -> Iterator[RuntimeKey]:
        """Iterate over every key that somebody has."""
        return iter(tuple(self._by_key))

    def accepts(self, namespace: str) -> bool:
        """Whether anything may be made for this namespace: it is there, and not on its way out."""
        known = self.namespaces.get(("", namespace))
        return known is not None and not known.terminating

    def resolve(self, sandbox: SandboxObject) -> Claim:
        """Find out what a Sandbox comes down to, as policies stand now."""
        namespace = self.namespaces.get(("", sandbox.namespace))
        namespace_uid = namespace.uid if namespace else ""
        status, policy = sandbox.status, sandbox.policy_name
        if isinstance(sandbox.spec, Problem):
            resolution = self._unresolved(sandbox.spec, policy=status.policy)
        else:
            resolution = resolve(
                namespace=sandbox.namespace,
                namespace_uid=namespace_uid,
                spec=sandbox.spec,
                policies=self._policies,
                recorded_policy=status.policy,
                operator=self._config,
                outcomes=self._outcomes,
            )
        private = RuntimeKey(sandbox.namespace, namespace_uid, policy, f"{_PRIVATE}{sandbox.uid}")
        recorded = RuntimeKey(sandbox.namespace, namespace_uid, policy, status.key) if status.key else None
        if resolution.key is None and resolution.problem is not None and recorded is not None:
            resolved = recorded  # what cannot be resolved stays where it is
        else:
            resolved = resolution.key or private
        return Claim(sandbox=sandbox, resolution=resolution, resolved=resolved, recorded=recorded)

    def _unresolved(self, problem: Problem, *, policy: str | None) -> Resolution:
        windows = merge_windows([built_in_level(self._config.default_backend)], max_hold_seconds=None)
        return Resolution(
            policy=policy, key=None, windows=windows, config=None, config_hash=None, problem=problem
        )

    def _sandbox_changed(self, old: SandboxObject | None, new: SandboxObject | None) -> None:
        if new is None:
            concerned = self._unindex(old.id) if old is not None else frozenset()
            self._recount(concerned)
        else:
            before, after = self._index(self.resolve(new))
            self._recount(before | after)
            # The pass that made the change need not look again at what it looks at.
            concerned = before ^ after if self.sandboxes.by_us else before | after
        for key in concerned:
            self._enqueue(key)

    def _policy_changed(self, old: PolicyObject | None, new: PolicyObject | None) -> None:
        changed = new or old
        if changed is None or (old is not None and new is not None and old.spec == new.spec):
            return  # what was resolved is known by the old spec's identity, so that one stays
        if new is not None:
            self._policies[new.id] = new.spec
        else:
            self._policies.pop(changed.id, None)
        everywhere = changed.id == (self._config.namespace, "default")
        for claim in tuple(self._by_id.values()):
            if everywhere or claim.sandbox.namespace == changed.namespace:
                self._refresh(claim)
        self.on_policy(changed.full_name)

    def _namespace_changed(self, old: NamespaceObject | None, new: NamespaceObject | None) -> None:
        changed = new or old
        if changed is None or old == new:
            return
        for claim in tuple(self._by_id.values()):
            if claim.sandbox.namespace == changed.name:
                self._refresh(claim, always=True)

    def _refresh(self, claim: Claim, *, always: bool = False) -> None:
        fresh = self.resolve(claim.sandbox)
        if always or fresh != claim:
            before, after = self._index(fresh)
            self._recount(before | after)
            for key in before | after:
                self._enqueue_later(key)

    def _index(self, claim: Claim) -> tuple[frozenset[RuntimeKey], frozenset[RuntimeKey]]:
        """Take in a claim; return the keys that it had before, and those that it has now."""
        former = self._by_id.get(claim.sandbox.id)
        changed = self._changed(former, claim) if former is not None else ()
        claim = replace(claim, changed=changed) if changed else claim
        before, after = former.keys if former is not None else frozenset(), claim.keys
        if before != after:
            self._unindex(claim.sandbox.id)
        self._by_id[claim.sandbox.id] = claim
        for key in after:
            self._by_key[key].add(claim.sandbox.id)
            self.on_indexed(key)
        return before, after

    def _unindex(self, object_id: ObjectId) -> frozenset[RuntimeKey]:
        claim = self._by_id.pop(object_id, None)
        if claim is None:
            return frozenset()
        for key in claim.keys:
            self._by_key[key].discard(object_id)
            self.on_indexed(key)
            if not self._by_key[key]:
                del self._by_key[key]
        return claim.keys

    def _recount(self, keys: Iterable[RuntimeKey]) -> None:
        if self._tally is not None:
            for key in keys:
                self._tally.count(key, [self._by_id[object_id] for object_id in self._by_key.get(key, ())])

    def _changed(self, former: Claim, claim: Claim) -> tuple[str, ...]:
        """Tell which fields were changed since what runs was made, by what was known of that and what is wanted now."""
        before, after = former.resolution, claim.resolution
        if after.config is None or after.config_hash == claim.sandbox.status.config_hash:
            return ()
        if before.config is None or before.config_hash == after.config_hash:
            return former.changed
        return tuple(sorted(self._differences.between(before.config, after.config).union(former.changed)))
