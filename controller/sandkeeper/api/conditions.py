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
    """It runs, is set up and proven ours."""
    NOT_SANDBOXED = "NotSandboxed"
    """Nothing is wanted: mode is off, or non-main and this is the main session."""

    # for Ready being False, on the way or at rest
    PENDING = "Pending"
    """Not looked at yet, or on its way to another key."""
    CREATING = "Creating"
    """A runtime is being made."""
    SETTING_UP = "SettingUp"
    """setupCommand runs."""
    REPLACING = "Replacing"
    """The old runtime is being removed for a new one."""
    PRUNING = "Pruning"
    """The runtime is being removed."""
    IDLE = "Idle"
    """Pruned: nobody used it for idleSeconds. A touch brings it back."""
    TOO_OLD = "TooOld"
    """Pruned: it lived for maxAgeSeconds. A touch brings it back."""
    STOPPING = "Stopping"
    """`spec.state: Stopped`, and something of it still runs. Told where that takes its time."""
    STOPPED = "Stopped"
    """`spec.state: Stopped`, and nothing runs any more."""
    RECOVERING = "Recovering"
    """It died; a new one comes."""
    TERMINATING = "Terminating"
    """The old runtime, or the object, is on its way out."""

    # for Ready being False, the desired state cannot be resolved
    POLICY_NOT_FOUND = "PolicyNotFound"
    """The policy is not there; or it applied once, and is gone."""
    INVALID_CONFIG = "InvalidConfig"
    """Fields contradict each other, or cannot be read."""
    LIMIT_EXCEEDED = "LimitExceeded"
    """Above the policy's `limits`."""
    CEILING_EXCEEDED = "CeilingExceeded"
    """Above the operator's ceilings."""
    BIND_REFUSED = "BindRefused"
    """A bind, or a `hostPath` workspace, leaves the bind roots, reaches something protected, lies where a sandbox
    writes, takes the workspace's place, or its source is not there."""
    WORKSPACE_AMBIGUOUS = "WorkspaceAmbiguous"
    """Scope is `shared`, and the workspace names `{agentId}`: whose?"""
    BACKEND_UNAVAILABLE = "BackendUnavailable"
    """This operator does not serve the backend."""
    UNSUPPORTED_FIELD = "UnsupportedField"
    """The backend has no means for what is said: `pidsLimit` in a Pod, a claim in a Docker container."""
    NETWORK_NOT_ISOLATED = "NetworkNotIsolated"
    """`limits.requireNetworkIsolation` holds, and the network is another than `none`, or nobody states that the
    cluster enforces NetworkPolicies."""
    TOO_MANY_SHARERS = "TooManySharers"
    """More Sandboxes share the runtime than it may have owners. Delete some, or give them a narrower scope."""
    CONFIG_CONFLICT = "ConfigConflict"
    """An older Sandbox with the same key wants something else; it rules."""

    # for Ready being False, the world does not play along
    IMAGE_MISSING = "ImageMissing"
    """The image cannot be had. On Docker nothing is pulled: build or pull it there. A Pod's node pulls it: name one
    that is there, or the secrets in `pod.imagePullSecrets`."""
    NETWORK_MISSING = "NetworkMissing"
    """The engine does not have the network."""
    ENGINE_FULL = "EngineFull"
    """`docker.maxContainers` is reached."""
    NAME_CONFLICT = "NameConflict"
    """A container or a Pod that is not ours has the name. It is not touched."""
    CREATE_FAILED = "CreateFailed"
    """The engine, or the API server, refused to make it."""
    START_FAILED = "StartFailed"
    """It was made and could not be started."""
    SETUP_FAILED = "SetupFailed"
    """setupCommand failed or took too long; the message has the end of its output. Where that looks as if the
    command lacked a network, a root file system to write to, root or capabilities, it names the fields to
    change, the values, and the ceilings above them."""
    EXITED = "Exited"
    """The container ended."""
    OOM_KILLED = "OOMKilled"
    """The container ran out of memory."""
    EVICTED = "Evicted"
    """The node or an eviction request took the Pod away: a drain, a full disk, `ephemeralStorage` or `sizeLimit`
    exceeded."""
    PREEMPTED = "Preempted"
    """A Pod of higher priority took its place."""
    UNSCHEDULABLE = "Unschedulable"
    """No node takes the Pod; the message is the scheduler's."""
    SEEDING_FAILED = "SeedingFailed"
    """The workspace could not be prepared; the message says why."""
    VOLUME_MISSING = "VolumeMissing"
    """The workspace's volume is not there, or cannot be mounted."""
    VOLUME_BUSY = "VolumeBusy"
    """Another Pod holds the volume."""

    # for Ready being Unknown
    NODE_LOST = "NodeLost"
    """The Pod's node does not answer. Nothing is forced: what ran there may still run."""
    ENGINE_UNREACHABLE = "EngineUnreachable"
    """The engine does not answer."""
    ENGINE_MISMATCH = "EngineMismatch"
    """It is another engine than the one that is recorded."""

    # for Drifted being True
    CONFIG_CHANGED = "ConfigChanged"
    """What runs was made from another configuration."""
    RECREATE_REQUESTED = "RecreateRequested"
    """The recreate or the wipe annotation asks for a new one."""
    IDENTITY_MOVED = "IdentityMoved"
    """Scope, backend or mode changed: the Sandbox belongs elsewhere, or nowhere."""
    REPLACEMENT_BLOCKED = "ReplacementBlocked"
    """The new one could not be made, so the old one is kept; it is tried again. The policy's rollout stops for it."""
    NEWER_EPOCH = "NewerEpoch"
    """Made by a newer operator: left alone."""
    ROLLOUT_BLOCKED = "RolloutBlocked"
    """Another replacement under the policy failed, and this one waits; the message names it, where it is in the
    same namespace. Of a policy: more replacements failed than `rollout.maxFailed` allows (`Ready` is False)."""
    REMOVALS_FORBIDDEN = "RemovalsForbidden"
    """The operator's configuration says `removals: forbidden`. Also why `RemovalWithheld` is True: what is idle,
    too old, dead or to be deleted is kept; and why a policy's `Progressing` is False."""

    # for the other conditions
    ANNOTATION_INVALID = "AnnotationInvalid"
    """An annotation cannot be read, or lies too far ahead; it is passed over (`AnnotationInvalid` is True)."""
    SECRET_LIKE_NAME = "SecretLikeName"  # noqa: S105 - a reason, not a secret
    """Environment variables were left out (`EnvFiltered`)."""
    NETWORK_POLICY_ENFORCED = "NetworkPolicyEnforced"
    """The installer states that the cluster enforces NetworkPolicies (`NetworkIsolated` is True)."""
    WAITING_FOR_SHARERS = "WaitingForSharers"
    """A fresh copy of the workspace was asked for by some of those who share it (`WipePending` is True); the
    message names the others. It comes when all ask."""
    SEED_SKIPPED = "SeedSkipped"
    """A file of the agent's could not be copied into the workspace (`WorkspaceIncomplete` is True). The sandbox
    runs without it."""
    SKILLS_SYNC_FAILED = "SkillsSyncFailed"
    """The agent's skills could not be brought up to date (`WorkspaceIncomplete` is True). The sandbox runs with
    those it has."""
    ENFORCEMENT_UNKNOWN = "EnforcementUnknown"
    """The Pod has its NetworkPolicy; whether anything enforces it, nobody states (`NetworkIsolated` is Unknown)."""
    PAUSED = "Paused"
    """The paused annotation is set: hands off (`Paused` is True)."""

    # of a policy
    ACCEPTED = "Accepted"
    """`Ready` is True: it can be followed, and no replacement failed."""
    UP_TO_DATE = "UpToDate"
    """`Current` is True: every runtime under it is as it says."""
    OUT_OF_DATE = "OutOfDate"
    """`Current` is False: some are not."""
    ROLLING_OUT = "RollingOut"
    """`Progressing` is True: some wait until they are cold and it is their turn, or are being replaced."""
    ROLLOUT_COMPLETE = "RolloutComplete"
    """`Progressing` is False: nothing waits."""
    ROLLOUT_PAUSED = "RolloutPaused"
    """`Progressing` is False: `rollout.paused`."""
