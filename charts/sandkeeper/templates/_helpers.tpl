{{- define "sandkeeper.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* Short enough for what is appended to it. */}}
{{- define "sandkeeper.fullname" -}}
{{- $name := include "sandkeeper.name" . -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "sandkeeper.selector" -}}
app.kubernetes.io/name: {{ include "sandkeeper.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "sandkeeper.labels" -}}
{{ include "sandkeeper.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "sandkeeper.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "sandkeeper.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "sandkeeper.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Whether the operator serves a backend: "true" or nothing. */}}
{{- define "sandkeeper.serves" -}}
{{- if has .backend (.root.Values.config.backends | default (list "docker")) }}true{{ end -}}
{{- end }}

{{/* The operator's configuration file. Where it is, and what it is called, nobody may say differently. */}}
{{- define "sandkeeper.config" -}}
{{- $own := dict "namespace" .Release.Namespace "release" .Release.Name -}}
{{ mergeOverwrite (deepCopy .Values.config) $own | toYaml | trim }}
{{- end }}

{{/* What the schema cannot say. */}}
{{- define "sandkeeper.check" -}}
{{- $backends := .Values.config.backends | default (list "docker") -}}
{{- $default := .Values.config.defaultBackend | default "docker" -}}
{{- if not (has $default $backends) -}}
{{ fail (printf "config.defaultBackend is %s, which is not among config.backends: add it there, or name another" $default) }}
{{- end -}}
{{- if and .Values.docker.socket.enabled .Values.docker.tls.enabled -}}
{{ fail "docker.socket and docker.tls are two ways to one engine: enable one of them" }}
{{- end -}}
{{- if and (or .Values.docker.socket.enabled .Values.docker.tls.enabled) (not (has "docker" $backends)) -}}
{{ fail "a Docker engine is given to an operator that does not need it: add docker to config.backends, or disable docker.socket and docker.tls" }}
{{- end -}}
{{- end }}
