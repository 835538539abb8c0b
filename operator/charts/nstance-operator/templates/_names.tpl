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

{{/* The text of the template of what makes machines join; empty: there is none. */}}
{{- define "nstance.bootstrapTemplate" -}}
{{- $given := .Values.demand.bootstrapTemplate -}}
{{- if and .Values.demand.enabled $given -}}
{{- if has $given (list "kubeadm" "k3s") -}}
{{- range $file := list "endpoint" "ca-hash" }}{{ if not (get $.Values.demand.bootstrapFiles $file) -}}
{{- fail (printf "demand.bootstrapFiles.%s: the template %s needs it" $file $given) -}}
{{- end }}{{ end -}}
{{- .Files.Get (printf "files/bootstrap/%s.tmpl" $given) -}}
{{- else if not (contains "\n" (trim $given)) -}}
{{- fail (printf "demand.bootstrapTemplate: %q must be kubeadm, k3s or the text of a template, which has several lines" $given) -}}
{{- else -}}
{{ $given }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Not empty: the template calls for a join token. */}}
{{- define "nstance.joinToken" -}}
{{- if regexMatch "\\{\\{[^}]*\\bbootstrapToken\\b" (include "nstance.bootstrapTemplate" .) }}true{{ end -}}
{{- end -}}

{{/* The groups that it authenticates as. */}}
{{- define "nstance.joinTokenGroups" -}}
{{- $of := ternary "k3s" "kubeadm" (eq .Values.demand.bootstrapTemplate "k3s") -}}
{{- join "," (.Values.demand.joinToken.groups | default (list (printf "system:bootstrappers:%s:default-node-token" $of))) -}}
{{- end -}}

{{/* The names of all Secrets that it is ever kept in, as package jointoken of the operator computes them. */}}
{{- define "nstance.joinTokenNames" -}}
{{- range $period := until 4 }}{{ range $attempt := until 4 }}
- bootstrap-token-{{ printf "nstance join token/%s/%s/%d/%d" $.Values.config.clusterId $.Values.config.tenant $period $attempt | sha256sum | trunc 6 }}
{{- end }}{{ end -}}
{{- end -}}

{{/* The cluster whose Pods are bought for. */}}
{{- define "nstance.podsOf" -}}
{{ .Values.capi.endpoint | default "this one" }}
{{- end -}}

{{/* Refuses demand mode where another installation has it for the same Pods: both would buy machines
for them. It sees what helm finds in the cluster; `helm template` finds nothing. */}}
{{- define "nstance.demandAlone" -}}
{{- $own := printf "%s-capacityrequests" (include "nstance.fullname" .) -}}
{{- $podsOf := include "nstance.podsOf" . -}}
{{- range dig "items" list (lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "" "") -}}
{{- if and (eq (dig "annotations" "nstance.dev/demand-cluster" "" .metadata) $podsOf) (ne .metadata.name $own) -}}
{{- fail (printf "demand.enabled: %s has demand mode on for the Pods of this cluster already, and both would buy machines for them; set it to false here or there" (trimSuffix "-capacityrequests" .metadata.name)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses host machines where another installation has them: they are in no namespace, and the policies of
each would refuse what the operator of the other makes. It sees what helm finds in the cluster. */}}
{{- define "nstance.hostsAlone" -}}
{{- $own := printf "%s-hosts-machines" (include "nstance.fullname" .) -}}
{{- range dig "items" list (lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "" "") -}}
{{- if and (eq (dig "labels" "hosts.nstance.dev/policy" "" .metadata) "machines") (ne .metadata.name $own) -}}
{{- fail (printf "hosts.enabled: %s has host machines on in this cluster already, and each would refuse the HostMachines of the other; set it to false here or there" (trimSuffix "-hosts-machines" .metadata.name)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
