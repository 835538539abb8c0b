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
  verbs: [get, list, delete{{ if or (include "nstance.onDemand" .) (include "nstance.podRequests" .) }}, watch{{ end }}{{ if include "nstance.onDemand" . }}, patch{{ end }}]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
{{- if or (include "nstance.onDemand" .) (include "nstance.podRequests" .) }}
- apiGroups: [""]
  resources: [persistentvolumes, persistentvolumeclaims]
  verbs: [list, watch]
{{- end }}
{{- if include "nstance.podRequests" . }}
{{- include "nstance.requestRules" . }}
{{- end }}
- apiGroups: [storage.k8s.io]
  resources: [volumeattachments]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [daemonsets]
  verbs: [list, watch]
{{- end -}}

{{/* How CapacityRequests are written for Pods, beside the Pods, volumes and claims that are read. */}}
{{- define "nstance.requestRules" }}
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs: [list, watch]
- apiGroups: [demand.nstance.dev]
  resources: [capacityrequests]
  verbs: [list, watch, create, patch, deletecollection]
- apiGroups: [demand.nstance.dev]
  resources: [capacityrequests/status]
  verbs: [patch]
{{- end -}}

{{/* Not empty: CapacityRequests are written for Pods, in the operator or in a process of its own. */}}
{{- define "nstance.podController" -}}
{{- with .Values.demand }}{{ if and .enabled .podController (ne .podSource "direct") }}true{{ end }}{{ end -}}
{{- end -}}

{{/* Not empty: the operator writes them. */}}
{{- define "nstance.podRequests" -}}
{{- if and (include "nstance.podController" .) (not .Values.demand.upc.ownProcess) }}true{{ end -}}
{{- end -}}

{{/* Not empty: a process of its own writes them. */}}
{{- define "nstance.podProcess" -}}
{{- if and (include "nstance.podController" .) .Values.demand.upc.ownProcess }}true{{ end -}}
{{- end -}}

{{/* How Pods become CapacityRequests, for both programs. */}}
{{- define "nstance.podArgs" -}}
- --demand-upc-qps={{ .Values.demand.upc.qps }}
- --demand-upc-burst={{ .Values.demand.upc.burst | int }}
- --demand-upc-workers={{ .Values.demand.upc.workers | int }}
- --demand-upc-cache-sync-timeout={{ .Values.demand.upc.cacheSyncTimeout }}
- --demand-upc-page-size={{ .Values.demand.upc.pageSize | int }}
- --affinity-alternatives={{ .Values.demand.affinityAlternatives }}
- --volume-topology={{ .Values.demand.volumeTopology }}
- --penalty-annotation-prefix={{ join "," .Values.demand.penaltyAnnotationPrefixes }}
{{- if .Values.demand.priorityClassPenalties }}
- --priority-class-penalties=/etc/nstance/penalties/classes.yaml
{{- end }}
{{- end -}}

{{/* Not empty: some Pods may ask for a machine of their own. */}}
{{- define "nstance.onDemand" -}}
{{- if and (ne .Values.onDemand.mode "off") .Values.onDemand.namespaces }}true{{ end -}}
{{- end -}}
