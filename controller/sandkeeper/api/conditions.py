"""Condition types, and the one vocabulary of reasons.

A reason is the same word in a condition, in an Event and in a metric label, so that what a user reads in
``kubectl describe`` is what an operator finds in a dashboard.
"""

from enum import StrEnum

__all__ = ["ConditionType", "Phase", "PolicyConditionType", "Reason"]


class ConditionType(StrEnum):
    """The conditions that a Sandbox may carry: ``Ready`` always, the others only while they are true."""

    READY = "Ready"
    """The sandbox can be used now: it runs, is set up and proven ours; or nothing is wanted."""
    DRIFTED = "Drifted"
    """What runs is not what is wanted, and is kept: it is in use, or its replacement is blocked."""
    ANNOTATION_INVALID = "AnnotationInvalid"
    """An annotation cannot be read, or lies too far ahead; it was passed over."""
    ENV_FILTERED = "EnvFiltered"
    """Environment variables with secret-like names were left out."""
    PAUSED = "Paused"
    """The operator keeps its hands off this object."""
    WIPE_PENDING = "WipePending"
    """A fresh copy of the workspace was asked for, and not by all who share it."""
    WORKSPACE_INCOMPLETE = "WorkspaceIncomplete"
    """Some of what belongs in the workspace could not be put there."""
    NETWORK_ISOLATED = "NetworkIsolated"
    """Only with a Pod: True where the installer states that network policies are enforced, else Unknown."""
    REPLACEMENT_FAILED = "ReplacementFailed"
    """Its runtime was replaced, and the new one did not come up. It is tried again; until it is up, or something else
    is wanted, the rollout stops for it."""
    REMOVAL_WITHHELD = "RemovalWithheld"
    """Its runtime, or the Sandbox itself, would be removed by now; the operator's configuration forbids removals."""


class PolicyConditionType(StrEnum):
    """The conditions that an AgentSandboxPolicy carries, all of them always."""

    READY = "Ready"
    """The policy can be followed, and its rollout is not stopped by a replacement that failed."""
    CURRENT = "Current"
    """Every runtime under it is made as the policy says now."""
    PROGRESSING = "Progressing"
    """Runtimes are on their way to what the policy says now, or wait for their turn."""


class Phase(StrEnum):
    """One word for people. Derived from the conditions; no code reads it."""

    PENDING = "Pending"
    CREATING = "Creating"
    SETUP = "Setup"
    READY = "Ready"
    NOT_SANDBOXED = "NotSandboxed"
    REPLACING = "Replacing"
    PRUNING = "Pruning"
    PRUNED = "Pruned"
    STOPPED = "Stopped"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class Reason(StrEnum):
    """Why a condition has its value."""

    # for Ready being True
    RUNNING = "Running"
    NOT_SANDBOXED = "NotSandboxed"

    # for Ready being False, on the way or at rest
    PENDING = "Pending"
    CREATING = "Creating"
    SETTING_UP = "SettingUp"
    REPLACING = "Replacing"
    PRUNING = "Pruning"
    IDLE = "Idle"
    """Pruned: nobody used it for idleSeconds."""
    TOO_OLD = "TooOld"
    """Pruned: it lived for maxAgeSeconds."""
    STOPPING = "Stopping"
    """It is being stopped, as spec.state says."""
    STOPPED = "Stopped"
    RECOVERING = "Recovering"
    """It died; a new one comes when the back-off has passed."""
    TERMINATING = "Terminating"
    """The old runtime, or the object, is on its way out."""

    # for Ready being False, the desired state cannot be resolved
    POLICY_NOT_FOUND = "PolicyNotFound"
    INVALID_CONFIG = "InvalidConfig"
    LIMIT_EXCEEDED = "LimitExceeded"
    """Above what the policy allows to agents and Sandboxes below it."""
    CEILING_EXCEEDED = "CeilingExceeded"
    """Above what the operator's own configuration allows to anybody."""
    BIND_REFUSED = "BindRefused"
    WORKSPACE_AMBIGUOUS = "WorkspaceAmbiguous"
    """Several agents share the runtime, and the workspace is said to be one of each."""
    BACKEND_UNAVAILABLE = "BackendUnavailable"
    UNSUPPORTED_FIELD = "UnsupportedField"
    """Something is set that the backend has no means for."""
    NETWORK_NOT_ISOLATED = "NetworkNotIsolated"
    """The policy requires isolation, and nobody states that it is enforced."""
    TOO_MANY_SHARERS = "TooManySharers"
    """More Sandboxes share the runtime than it may have owners."""
    CONFIG_CONFLICT = "ConfigConflict"
    """An older Sandbox with the same key wants something else; it rules."""

    # for Ready being False, the world does not play along
    IMAGE_MISSING = "ImageMissing"
    NETWORK_MISSING = "NetworkMissing"
    ENGINE_FULL = "EngineFull"
    NAME_CONFLICT = "NameConflict"
    CREATE_FAILED = "CreateFailed"
    START_FAILED = "StartFailed"
    SETUP_FAILED = "SetupFailed"
    EXITED = "Exited"
    OOM_KILLED = "OOMKilled"
    EVICTED = "Evicted"
    """The node or an eviction request took the Pod away, as in a drain or for want of disk."""
    PREEMPTED = "Preempted"
    """A Pod of higher priority took its place."""
    UNSCHEDULABLE = "Unschedulable"
    """No node takes the Pod; the message is the scheduler's."""
    SEEDING_FAILED = "SeedingFailed"
    """The workspace could not be prepared."""
    VOLUME_MISSING = "VolumeMissing"
    VOLUME_BUSY = "VolumeBusy"
    """The volume is held by another Pod."""

    # for Ready being Unknown
    NODE_LOST = "NodeLost"
    """The Pod's node does not answer. Nothing is forced: what ran there may still run."""
    ENGINE_UNREACHABLE = "EngineUnreachable"
    ENGINE_MISMATCH = "EngineMismatch"

    # for Drifted being True
    CONFIG_CHANGED = "ConfigChanged"
    RECREATE_REQUESTED = "RecreateRequested"
    IDENTITY_MOVED = "IdentityMoved"
    """Scope, backend or mode changed: the Sandbox belongs elsewhere, or nowhere."""
    REPLACEMENT_BLOCKED = "ReplacementBlocked"
    NEWER_EPOCH = "NewerEpoch"
    """Made by a newer operator: left alone."""
    ROLLOUT_BLOCKED = "RolloutBlocked"
    """Another replacement under the policy failed; this one waits. Of a policy: its rollout waits for that one."""
    REMOVALS_FORBIDDEN = "RemovalsForbidden"
    """The operator's configuration forbids that anything is removed."""

    # of a policy
    ACCEPTED = "Accepted"
    UP_TO_DATE = "UpToDate"
    OUT_OF_DATE = "OutOfDate"
    ROLLING_OUT = "RollingOut"
    ROLLOUT_COMPLETE = "RolloutComplete"
    ROLLOUT_PAUSED = "RolloutPaused"

    # for the other conditions
    ANNOTATION_INVALID = "AnnotationInvalid"
    SECRET_LIKE_NAME = "SecretLikeName"  # noqa: S105 - a reason, not a secret
    NETWORK_POLICY_ENFORCED = "NetworkPolicyEnforced"
    """The installer states that the cluster enforces network policies."""
    WAITING_FOR_SHARERS = "WaitingForSharers"
    """Others share the workspace, and did not ask for a fresh copy."""
    SEED_SKIPPED = "SeedSkipped"
    """A file of the agent's could not be copied into the sandbox's own workspace."""
    SKILLS_SYNC_FAILED = "SkillsSyncFailed"
    """The agent's skills could not be brought up to date."""
    ENFORCEMENT_UNKNOWN = "EnforcementUnknown"
    """Network policies are there; whether anything enforces them cannot be seen."""
    PAUSED = "Paused"
