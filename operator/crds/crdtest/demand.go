package crdtest

import "strings"

const (
	capacityRequest = `
apiVersion: demand.nstance.dev/v1alpha1
kind: CapacityRequest
metadata: {name: web-0-12345678, namespace: default}
`
	upcomingNode = `
apiVersion: demand.nstance.dev/v1alpha1
kind: UpcomingNode
metadata: {name: m1}
spec: {machineID: m1, shard: a}
`
	availableCapacity = `
apiVersion: demand.nstance.dev/v1alpha1
kind: AvailableCapacity
metadata: {name: ac-1}
spec: {profileFingerprint: f1, requirements: [{key: rack, operator: Same}], confidence: Medium, availableCount: 2, costPerHour: "0.096"}
`
)

// DemandCases is the table of demand mode. Each call returns new objects.
func DemandCases() []Case {
	return append(requestCases(), readBackCases()...)
}

// requestCases are what the schema of a request and its rules take and refuse.
func requestCases() []Case {
	var all []Case
	for _, c := range []struct{ name, spec, refused string }{
		{"the least", `{resources: {requests: {cpu: 1}}}`, ""},
		{"quantities as text", `{resources: {requests: {cpu: 500m, memory: 1Gi, nvidia.com/gpu: "0"}}, interruptionPenalty: 500m, reclamationPenalty: 5}`, ""},
		{"nothing is asked for", `{resources: {requests: {cpu: 0, memory: "0"}}}`, "at least one request must be more than 0"},
		{"no resources", `{resources: {requests: {}}}`, "requests"},
		{"a negative request", `{resources: {requests: {cpu: 1, memory: "-1"}}}`, "no request may be negative"},
		{"a negative penalty", `{resources: {requests: {cpu: 1}}, interruptionPenalty: "-1"}`, "interruptionPenalty must not be negative"},
		{"a negative number as penalty", `{resources: {requests: {cpu: 1}}, reclamationPenalty: -1}`, "reclamationPenalty must not be negative"},
		{"In without values", `{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: In}]}`, "at least one value"},
		{"Exists with values", `{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: Exists, values: [b]}]}`, "take no values"},
		{"Gt with an integer", `{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: Gt, values: ["-3"]}]}`, ""},
		{"Gt with two", `{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: Gt, values: ["3", "4"]}]}`, "one decimal integer"},
		{"Lt with a word", `{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: Lt, values: [x]}]}`, "one decimal integer"},
		{"Same", `{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: Same}]}`, "Same"},
		{"too many values", `{resources: {requests: {cpu: 1}}, requirements: [{key: a, operator: In, values: ` + listOf(65, "b") + `}]}`, "64"},
		{"too many requirements", `{resources: {requests: {cpu: 1}}, requirements: ` + listOf(33, "{key: a, operator: Exists}") + `}`, "32"},
		{"one alternative", `{resources: {requests: {cpu: 1}}, alternatives: [{requirements: [{key: a, operator: Exists}]}]}`, "at least 2"},
		{"an alternative that breaks", `{resources: {requests: {cpu: 1}}, alternatives: ` + listOf(2, "{requirements: [{key: a, operator: In}]}") + `}`, "at least one value"},
		{"eight alternatives", `{resources: {requests: {cpu: 1}}, alternatives: ` + listOf(8, "{requirements: [{key: a, operator: Exists}]}") + `}`, ""},
		{"a skew of 0", `{resources: {requests: {cpu: 1}}, topologySpread: [{topologyKey: a, maxSkew: 0, whenUnsatisfiable: DoNotSchedule}]}`, "maxSkew"},
		{"a co-location", `{resources: {requests: {cpu: 1}}, coLocation: {topologyKey: rack, labelSelector: {matchLabels: {app: db}}, namespaces: [default], allOrNothing: true}}`, ""},
		{"tolerations", `{resources: {requests: {cpu: 1}}, tolerations: [{operator: Exists}, {key: a, operator: Equal, value: b, effect: NoSchedule}]}`, ""},
		{"a toleration of what is avoided", `{resources: {requests: {cpu: 1}}, tolerations: [{key: a, effect: PreferNoSchedule}]}`, "PreferNoSchedule"},
		{"32 requirements", `{resources: {requests: {cpu: 1}}, requirements: ` + listOf(32, "{key: a, operator: Exists}") + `}`, ""},
		{"nine alternatives", `{resources: {requests: {cpu: 1}}, alternatives: ` + listOf(9, "{requirements: [{key: a, operator: Exists}]}") + `}`, "8"},
		{"a spread that changes nothing", `{resources: {requests: {cpu: 1}}, topologySpread: [{topologyKey: a, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}]}`, ""},
		{"nine spreads", `{resources: {requests: {cpu: 1}}, topologySpread: ` + listOf(9, "{topologyKey: a, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}") + `}`, "8"},
		{"two co-locations", `{resources: {requests: {cpu: 1}}, coLocation: [{topologyKey: a}, {topologyKey: b}]}`, "coLocation"},
		{"a priority below 0", `{resources: {requests: {cpu: 1}}, priority: -5}`, ""},
		{"a priority beyond 32 bits", `{resources: {requests: {cpu: 1}}, priority: 2147483648}`, "priority"},
		{"a penalty that is no amount", `{resources: {requests: {cpu: 1}}, interruptionPenalty: much}`, "interruptionPenalty"},
		{"a toleration for some seconds", `{resources: {requests: {cpu: 1}}, tolerations: [{key: a, operator: Exists, tolerationSeconds: 5}]}`, ""},
	} {
		all = append(all, Case{Name: "a request: " + c.name, Sent: merge(parse(capacityRequest), parse("spec: "+c.spec)), Refused: c.refused})
	}
	asks := merge(parse(capacityRequest), parse("spec: {resources: {requests: {cpu: 1}}}"))
	phase := func(name, phase, refused string) Case {
		return Case{Name: "a request: " + name, Stored: asks, Sent: merge(asks, parse("status: {phase: "+phase+"}")), Status: true, Refused: refused}
	}
	return append(all,
		phase("is acknowledged", "Acknowledged", ""), phase("is satisfied", "Satisfied", "Satisfied"),
		Case{Name: "a request: is changed, as its Pod is", Stored: asks, Sent: merge(asks, parse("spec: {resources: {requests: {cpu: 2}}, priority: 7}"))},
	)
}

// readBackCases are about what the operator alone writes.
func readBackCases() []Case {
	return []Case{
		create(upcomingNode, "a machine", `{}`, ""),
		create(upcomingNode, "a machine of no shard", `spec: {shard: null}`, "shard"),
		create(upcomingNode, "a machine without an id", `spec: {machineID: ""}`, "machineID"),
		update(upcomingNode, `{}`, "a machine changes its shard", `spec: {shard: b}`, "shard is immutable"),
		update(upcomingNode, `{}`, "a machine becomes another", `spec: {machineID: m2}`, "machineID is immutable"),
		update(upcomingNode, `{}`, "what is known of a machine changes", `spec: {zone: z, resources: {cpu: 2}, taints: [{key: a, effect: NoSchedule}]}`, ""),
		status(upcomingNode, "a machine has its Node", `status: {phase: Ready, nodeRef: {name: n1, uid: u1}, providerID: "nstance://a/m1"}`, ""),
		status(upcomingNode, "a machine is lost", `status: {phase: Lost}`, "Lost"),
		create(availableCapacity, "what could be had", `{}`, ""),
		create(availableCapacity, "a price that is none", `spec: {costPerHour: cheap}`, "costPerHour"),
		create(availableCapacity, "a hope", `spec: {confidence: Some}`, "Some"),
		update(availableCapacity, `{}`, "a profile becomes another", `spec: {profileFingerprint: f2}`, "profileFingerprint is immutable"),
		status(availableCapacity, "what is missing", `status: {shortfall: {deficit: {cpu: 4}, reason: NoMatchingOffer}, shards: [{shard: a, confidence: None}]}`, ""),
		status(availableCapacity, "a shard that says two things", `status: {shards: [{shard: a}, {shard: a}]}`, "Duplicate"),
	}
}

// listOf is a list of equal elements.
func listOf(n int, element string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}
