{{/* The name that all names begin with. */}}
{{- define "nstance.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains "nstance-operator" .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-nstance-operator" .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "nstance.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end -}}

{{- define "nstance.serviceAccountName" -}}
{{ .Values.serviceAccount.name | default (include "nstance.fullname" .) }}
{{- end -}}

{{/* The Cluster of the tenant, as package names of the operator calls it. */}}
{{- define "nstance.cluster" -}}
{{- $name := printf "%s--%s" .Values.config.clusterId .Values.config.tenant -}}
{{- if le (len $name) 63 -}}
{{ $name }}
{{- else -}}
{{ printf "%s-%s" (regexReplaceAll "-+$" (trunc 54 $name) "") ($name | sha256sum | trunc 8) }}
{{- end -}}
{{- end -}}

{{/* The operator and Cluster API's core, as the API server calls them. */}}
{{- define "nstance.user" -}}
system:serviceaccount:{{ include "nstance.namespace" . }}:{{ include "nstance.serviceAccountName" . }}
{{- end -}}

{{- define "nstance.core" -}}
system:serviceaccount:{{ .Values.capi.core.namespace }}:{{ .Values.capi.core.serviceAccountName }}
{{- end -}}

{{/* What writes CapacityRequests for Pods, as the API server calls it. */}}
{{- define "nstance.podWriter" -}}
{{- if and .Values.demand.enabled .Values.demand.upc.ownProcess -}}
system:serviceaccount:{{ include "nstance.namespace" . }}:{{ include "nstance.podDemand" . }}
{{- else -}}
{{ include "nstance.user" . }}
{{- end -}}
{{- end -}}

{{- define "nstance.webhookService" -}}
{{ include "nstance.fullname" . }}-webhook
{{- end -}}

{{- define "nstance.selector" -}}
app.kubernetes.io/name: nstance-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "nstance.labels" -}}
{{ include "nstance.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
cluster.x-k8s.io/provider: infrastructure-nstance
{{- end -}}

{{/* What writes CapacityRequests for Pods in a process of its own. */}}
{{- define "nstance.podDemand" -}}
{{ include "nstance.fullname" . }}-pod-demand
{{- end -}}

{{- define "nstance.podDemandSelector" -}}
app.kubernetes.io/name: nstance-pod-demand
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "nstance.podDemandLabels" -}}
{{ include "nstance.podDemandSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Names, for a line of metadata in the namespace. */}}
{{- define "nstance.webhookConfiguration" -}}
{{ include "nstance.fullname" . }}
{{- end -}}
