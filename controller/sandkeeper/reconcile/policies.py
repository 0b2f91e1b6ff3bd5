"""The statuses of policies, as we write them: now and then, and only what changed.

What a thousand Sandboxes do in a second changes the counts of their policy a thousand times. So a status is written at
most every few seconds, and where nothing but the counts of a policy at rest has changed, once a minute.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

from sandkeeper.api.conditions import PolicyConditionType, Reason
from sandkeeper.api.policy_status import AgentSandboxPolicyStatus
from sandkeeper.cluster.api import ApiError, Conflict, KubeApi, NotFound
from sandkeeper.cluster.events import EventPoster
from sandkeeper.cluster.leadership import NotLeader
from sandkeeper.cluster.resources import POLICIES
from sandkeeper.config.acceptance import find_problem
from sandkeeper.config.operator import OperatorConfig, Removals
from sandkeeper.config.resolution import Problem
from sandkeeper.config.rollouts import rollout_limits
from sandkeeper.reconcile.claims import Claims
from sandkeeper.reconcile.objects import PolicyObject
from sandkeeper.reconcile.policy_status import news_in, policy_status
from sandkeeper.reconcile.rollouts import Rollouts
from sandkeeper.reconcile.statuses import merge_patch

__all__ = ["Policies", "is_news"]

logger = logging.getLogger(__name__)

_TICK: Final = 1.0
_NEWS_SECONDS: Final = 5.0
"""Between two writes of one status, where there is news."""
_COUNTS_SECONDS: Final = 60.0
"""The same, where a policy is at rest, and Sandboxes come and go."""


class Policies:
    """Writes statuses of the policies in namespaces that we lead."""

    def __init__(
        self,
        *,
        api: KubeApi,
        claims: Claims,
        rollouts: Rollouts,
        events: EventPoster,
        config: OperatorConfig,
        leads: Callable[[str], bool],
        now: Callable[[], datetime],
    ) -> None:
        self._api = api
        self._claims = claims
        self._rollouts = rollouts
        self._events = events
        self._config = config
        self._leads = leads
        self._now = now
        self._began = time.monotonic()
        self._written: dict[str, float] = {}
        """When each status was last written, by the monotonic clock."""
        self._problems: dict[str, tuple[object, Problem | None]] = {}
        """What is wrong with each policy, and of which spec that was found."""

    async def run(self) -> None:
        """Write what there is to say, until cancelled."""
        while True:
            await asyncio.sleep(_TICK)
            if self._rollouts.leading:
                await self.write_due()

    async def write_due(self) -> None:
        """Write the statuses of which there is news, and whose time has come."""
        if self._rollouts.is_behind:
            return
        self._rollouts.advance()
        for name in sorted(self._rollouts.touched):
            policy = self._claims.policies.get(_id_of(name))
            if policy is None or not self._leads(policy.namespace):
                self._rollouts.touched.discard(name)
                self._written.pop(name, None)
                self._problems.pop(name, None)
                continue
            status = self._status_of(policy)
            if status == policy.status:
                self._rollouts.touched.discard(name)
                continue
            pause = _NEWS_SECONDS if is_news(policy.status, status) else _COUNTS_SECONDS
            if time.monotonic() - self._written.get(name, self._began - _NEWS_SECONDS) >= pause:
                self._rollouts.touched.discard(name)
                await self._write(policy, status)

    def _status_of(self, policy: PolicyObject) -> AgentSandboxPolicyStatus:
        spec = policy.spec
        return policy_status(
            policy,
            self._rollouts.progress(policy.full_name),
            problem=self._problem_of(policy),
            limits=rollout_limits(None if isinstance(spec, Problem) else spec),
            forbidden=self._config.removals is Removals.FORBIDDEN,
            now=self._now(),
        )

    def _problem_of(self, policy: PolicyObject) -> Problem | None:
        name, spec = policy.full_name, policy.spec
        if isinstance(spec, Problem):
            return spec
        known = self._problems.get(name)
        if known is None or known[0] != spec:
            found = find_problem(spec, namespace=policy.namespace, name=policy.name, operator=self._config)
            known = self._problems[name] = (spec, found)
        return known[1]

    async def _write(self, policy: PolicyObject, status: AgentSandboxPolicyStatus) -> None:
        self._written[policy.full_name] = time.monotonic()
        patch = merge_patch(_to_json(policy.status), _to_json(status))
        metadata = {"uid": policy.uid, "resourceVersion": policy.resource_version}
        try:
            raw = await self._api.patch(
                POLICIES,
                {"metadata": metadata, "status": patch},
                name=policy.name,
                namespace=policy.namespace,
                subresource="status",
            )
        except NotFound:
            return
        except Conflict:
            self._rollouts.touched.add(policy.full_name)  # its newest version is on its way to us
            return
        except (ApiError, NotLeader) as error:
            self._rollouts.touched.add(policy.full_name)
            logger.warning("Cannot write the status of the policy %s: %s", policy.full_name, error)
            return
        for note in news_in(policy, status):
            self._events.post(note)
        self._claims.policies.take_in(raw)


def _id_of(name: str) -> tuple[str, str]:
    namespace, _, own = name.partition("/")
    return namespace, own


def _to_json(status: AgentSandboxPolicyStatus) -> dict[str, object]:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


def is_news(before: AgentSandboxPolicyStatus, after: AgentSandboxPolicyStatus) -> bool:
    """Whether more changed than the counts of a policy at rest."""
    told, tells = ([(c.type, c.status, c.reason) for c in one.conditions] for one in (before, after))
    is_at_rest = (PolicyConditionType.PROGRESSING, "False", Reason.ROLLOUT_COMPLETE) in tells
    return (before.observed_generation, told) != (after.observed_generation, tells) or not is_at_rest
