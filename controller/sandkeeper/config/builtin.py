"""The built-in level: the only place where defaults exist, but for those of Pods (:mod:`sandkeeper.config.pod`).

It stands below every policy. A value that changes here changes what existing runtimes are taken to be made
of, so it raises :data:`sandkeeper.config.canonical.EPOCH`; a new field with a default that keeps the
behaviour does not.
"""

from typing import Final

from sandkeeper.api.container import ContainerTemplate
from sandkeeper.api.policy import Mode, PolicyLevel, PolicyRollout, Prune, Scope

__all__ = ["BUILT_IN", "FALLBACK_IMAGE", "MAX_HOLD_SECONDS"]

BUILT_IN: Final = PolicyLevel(
    mode=Mode.ALL,
    main_session_key="main",
    scope=Scope.AGENT,
    # backend is absent: its default is the operator's, see OperatorConfig.default_backend.
    container=ContainerTemplate(
        image="sandkeeper-sandbox:bookworm-slim",
        container_prefix="sandkeeper-",
        workdir="/workspace",
        read_only_root=True,
        tmpfs=["/tmp", "/var/tmp", "/run"],  # noqa: S108 - paths inside the sandbox, not ours
        network="none",
        # Numbers that own files on most single-user hosts. With every capability dropped even root could not
        # write to a bound directory of another owner, so "no user" would be worse in both ways.
        user="1000:1000",
        cap_drop=["ALL"],
        env={"LANG": "C.UTF-8"},
        init=True,
        setup_timeout_seconds=300,
        image_fallback=False,
    ),
    prune=Prune(idle_seconds=86_400, max_age_seconds=604_800, delete_after_seconds=0),
    hot_window_seconds=300,
    rollout=PolicyRollout(paused=False, max_unavailable="25%", max_failed=0),
)
"""What holds where no policy, agent's entry or Sandbox says anything."""

MAX_HOLD_SECONDS: Final = 86_400
"""Longest effect of one value of the hold-until annotation where the policy's limits do not say."""

FALLBACK_IMAGE: Final = "debian:bookworm-slim"
"""What runs in place of a missing image where the policy asks for that."""
