package crdtest

const cluster = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceCluster
metadata: {name: example--default}
`

const controlPlane = `
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: NstanceControlPlane
metadata: {name: example--default}
`

const endpointStays = "spec.controlPlaneEndpoint is immutable once host is set, as Cluster API demands; " +
	"use a DNS name if the address may change"

func clusterCases() []Case {
	return append(endpointCases("cluster", cluster),
		status(cluster, "cluster: shards are failure domains",
			"status: {failureDomains: [{name: a, attributes: {zone: z1}}, {name: b, controlPlane: false}]}", ""),
		status(cluster, "cluster: a shard is one failure domain",
			"status: {failureDomains: [{name: a}, {name: a}]}", "status.failureDomains[1]: Duplicate value"),
		status(cluster, "cluster: a shard is in one state",
			"status: {shards: [{name: a, state: Ready, groups: 1, instances: 2}, {name: a, state: Ready}]}",
			"status.shards[1]: Duplicate value"),
	)
}

func controlPlaneCases() []Case {
	return append(endpointCases("control plane", controlPlane),
		status(controlPlane, "control plane: it is initialized and others run it",
			"status: {initialization: {controlPlaneInitialized: true}, externalManagedControlPlane: true, version: v1.36.3}", ""),
	)
}

// endpointCases are the same for both kinds that have an endpoint.
func endpointCases(what, example string) []Case {
	const set = "spec: {controlPlaneEndpoint: {host: api.example.com, port: 6443}}"
	return []Case{
		create(example, what+": nothing need be said", "", ""),
		create(example, what+": an endpoint", set, ""),
		create(example, what+": a port ends at 65535", "spec: {controlPlaneEndpoint: {host: a, port: 65536}}",
			"spec.controlPlaneEndpoint.port: Invalid value"),
		update(example, "", what+": the endpoint is set once", set, ""),
		update(example, set, what+": the endpoint is written again", set, ""),
		update(example, set, what+": the host stays", "spec: {controlPlaneEndpoint: {host: other}}", endpointStays),
		update(example, set, what+": the port stays", "spec: {controlPlaneEndpoint: {port: 443}}", endpointStays),
		update(example, set, what+": the endpoint is not taken away", "spec: {controlPlaneEndpoint: null}", endpointStays),
		update(example, set, what+": nor with all of the spec", "spec: null", endpointStays),
	}
}
