{{/*
What the operator does in the workload cluster: drain Nodes, tell them apart, and let
Pods with a machine of their own be scheduled. Where that is another cluster, the identity
in its kubeconfig needs these instead.
*/}}
{{- define "nstance.workloadRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, delete{{ if include "nstance.onDemand" . }}, watch, patch{{ end }}]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
{{- if include "nstance.onDemand" . }}
- apiGroups: [""]
  resources: [persistentvolumes, persistentvolumeclaims]
  verbs: [list, watch]
{{- end }}
- apiGroups: [storage.k8s.io]
  resources: [volumeattachments]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [daemonsets]
  verbs: [list, watch]
{{- end -}}

{{/* Not empty: some Pods may ask for a machine of their own. */}}
{{- define "nstance.onDemand" -}}
{{- if and (ne .Values.onDemand.mode "off") .Values.onDemand.namespaces }}true{{ end -}}
{{- end -}}
