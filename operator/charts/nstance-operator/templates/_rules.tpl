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
  verbs: [get, list, delete{{ if or (include "nstance.onDemand" .) .Values.demand.enabled }}, watch{{ end }}{{ if include "nstance.onDemand" . }}, patch{{ end }}]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
{{- if or (include "nstance.onDemand" .) (include "nstance.podRequests" .) (include "nstance.podsCount" .) }}
- apiGroups: [""]
  resources: [persistentvolumes, persistentvolumeclaims]
  verbs: [list, watch]
{{- end }}
{{- include "nstance.demandRules" . }}
- apiGroups: [storage.k8s.io]
  resources: [volumeattachments]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [daemonsets]
  verbs: [list, watch]
{{- end -}}

{{/* What the operator does for the kubelets of host machines, beside the Nodes and Pods that are read. */}}
{{- define "nstance.hostWorkloadRules" -}}
- apiGroups: [certificates.k8s.io]
  resources: [certificatesigningrequests]
  verbs: [list, watch]
- apiGroups: [certificates.k8s.io]
  resources: [certificatesigningrequests/approval]
  verbs: [update]
- apiGroups: [certificates.k8s.io]
  resources: [signers]
  resourceNames: [kubernetes.io/kube-apiserver-client-kubelet]
  verbs: [approve]
{{- end -}}

{{/* What the operator does in demand mode, beside the Pods, Nodes, DaemonSets, volumes and claims that are read. */}}
{{- define "nstance.demandRules" }}
{{- if .Values.demand.enabled }}
{{- if or (include "nstance.podRequests" .) (include "nstance.podsCount" .) }}
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs: [list, watch]
{{- end }}
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
- apiGroups: [demand.nstance.dev]
  resources: [capacityrequests]
  verbs: [list, watch{{ if include "nstance.podRequests" . }}, create, patch, deletecollection{{ end }}]
- apiGroups: [demand.nstance.dev]
  resources: [capacityrequests/status, upcomingnodes/status, availablecapacities/status]
  verbs: [patch]
- apiGroups: [demand.nstance.dev]
  resources: [upcomingnodes]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [demand.nstance.dev]
  resources: [availablecapacities]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- end -}}

{{/* Not empty: Pods count by themselves in demand mode. */}}
{{- define "nstance.podsCount" -}}
{{- if and .Values.demand.enabled (ne .Values.demand.podSource "cr") }}true{{ end -}}
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
- --demand-upc-page-size={{ .Values.demand.upc.pageSize | int }}
- --affinity-alternatives={{ .Values.demand.affinityAlternatives }}
- --volume-topology={{ .Values.demand.volumeTopology }}
- --penalty-annotation-prefix={{ join "," .Values.demand.penaltyAnnotationPrefixes }}
{{- if .Values.demand.priorityClassPenalties }}
- --priority-class-penalties=/etc/nstance/penalties/classes.yaml
{{- end }}
{{- end -}}

{{/* How demand mode is carried out, for the operator. */}}
{{- define "nstance.demandArgs" -}}
- --demand-reconnect-initial-backoff={{ .Values.demand.reconnectInitialBackoff }}
- --demand-reconnect-max-backoff={{ .Values.demand.reconnectMaxBackoff }}
- --demand-outbox-capacity={{ .Values.demand.outboxCapacity | int }}
- --demand-dispatch-concurrency={{ .Values.demand.dispatchConcurrency | int }}
- --demand-max-message={{ .Values.demand.maxMessage | int }}
- --demand-keepalive-interval={{ .Values.demand.keepaliveInterval }}
- --demand-keepalive-timeout={{ .Values.demand.keepaliveTimeout }}
- --demand-default-drain-grace={{ .Values.demand.defaultDrainGrace }}
- --reclaim-fit-check={{ .Values.demand.reclaimFitCheck }}
- --foreign-annotations={{ .Values.demand.foreignAnnotations }}
- --demand-kube-api-qps={{ .Values.demand.kubeApiQps }}
- --demand-kube-api-burst={{ .Values.demand.kubeApiBurst | int }}
- --demand-rollup-interval={{ .Values.demand.rollupInterval }}
- --demand-rollup-min-interval={{ .Values.demand.rollupMinInterval }}
- --demand-acknowledge-concurrency={{ .Values.demand.acknowledgeConcurrency | int }}
- --demand-count-foreign-nodes={{ .Values.demand.countForeignNodes }}
- --unit-classes={{ .Values.demand.unitClasses }}
- --daemonset-overhead={{ .Values.demand.daemonsetOverhead }}
- --stuck-pod-surcharge={{ .Values.demand.stuckPodSurcharge }}
{{- end -}}

{{/* Not empty: some Pods may ask for a machine of their own. */}}
{{- define "nstance.onDemand" -}}
{{- if and (ne .Values.onDemand.mode "off") .Values.onDemand.namespaces }}true{{ end -}}
{{- end -}}
