{{/*
What the operator may do, by concern. Each is a Role, or a ClusterRole where all namespaces are served. The tests run
with these rights and no others, and compare them with what the API server was asked for: docs/reference/operator.md.
*/}}
{{- define "sandkeeper.rights" -}}
sandboxes:
  - apiGroups: [sandkeeper.dev]
    resources: [sandboxes]
    verbs: [get, list, watch, patch, delete]
  - apiGroups: [sandkeeper.dev]
    resources: [sandboxes/status]
    verbs: [patch]
  - apiGroups: [sandkeeper.dev]
    resources: [agentsandboxpolicies]
    verbs: [get, list, watch]
  - apiGroups: [sandkeeper.dev]
    resources: [agentsandboxpolicies/status]
    verbs: [patch]
events:
  - apiGroups: [""]
    resources: [events]
    verbs: [create]
{{- if include "sandkeeper.serves" (dict "root" . "backend" "pod") }}
pods:
  - apiGroups: [""]
    resources: [pods]
    verbs: [get, list, watch, create, patch, delete]
  # Before 1.35 a command is a get, since then also a create.
  - apiGroups: [""]
    resources: [pods/exec]
    verbs: [get, create]
  - apiGroups: [""]
    resources: [events]
    verbs: [list]
networks:
  - apiGroups: [networking.k8s.io]
    resources: [networkpolicies]
    verbs: [get, list, watch, create, update, delete]
workspaces:
  - apiGroups: [""]
    resources: [persistentvolumeclaims]
    verbs: [get, list, watch, create, patch]
{{- end }}
{{- end }}

{{/* What has no namespace. */}}
{{- define "sandkeeper.rights.cluster" -}}
namespaces:
  - apiGroups: [""]
    resources: [namespaces]
    verbs: [get, list, watch]
{{- if include "sandkeeper.serves" (dict "root" . "backend" "pod") }}
nodes:
  - apiGroups: [""]
    resources: [nodes]
    verbs: [get]
{{- end }}
{{- end }}

{{/* What is in the operator's own namespace. */}}
{{- define "sandkeeper.rights.own" -}}
leader:
  # What is made cannot be restricted by its name.
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
{{- if dig "sharding" "enabled" false .Values.config }}
  # Each operator has a Lease of its own, whose name nobody knows beforehand; who is gone is cleared away by the others.
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [get, list, update, delete]
{{- else }}
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{{ .Release.Name }}-leader]
    verbs: [get, update]
  # Whether operators with sharding are still at work.
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{{ .Release.Name }}-shards]
    verbs: [get]
{{- end }}
{{- if and .Values.config.watchNamespaces (not (has .Release.Namespace .Values.config.watchNamespaces)) }}
defaults:
  - apiGroups: [sandkeeper.dev]
    resources: [agentsandboxpolicies]
    verbs: [get, list]
  - apiGroups: [sandkeeper.dev]
    resources: [agentsandboxpolicies/status]
    verbs: [patch]
  - apiGroups: [""]
    resources: [events]
    verbs: [create]
{{- end }}
{{- end }}

{{/* A role and its binding. Of root, concern, rules, and namespace, which is empty for a ClusterRole. */}}
{{- define "sandkeeper.role" -}}
{{- $name := printf "%s-%s" (include "sandkeeper.fullname" .root) .concern -}}
{{- $kind := ternary "Role" "ClusterRole" (not (empty .namespace)) -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ $name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "sandkeeper.labels" .root | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
rules:
  {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ $name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "sandkeeper.labels" .root | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ .account | default (include "sandkeeper.serviceAccount" .root) }}
    namespace: {{ .root.Release.Namespace }}
{{ end }}
