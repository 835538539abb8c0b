// Package policytest says what the admission policies let pass and what they refuse: a
// table of requests, and a judge that answers them without a server, by the API server's
// own evaluation of CEL. The same table is meant to be put to a real server.
package policytest

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"nstance.dev/operator/policies"
)

// Params are those that the cases are written for.
var Params = policies.Params{
	Name:      "nstance",
	Namespace: "nstance-system",
	User:      "system:serviceaccount:nstance-system:nstance-operator",
	Core:      "system:serviceaccount:capi-system:capi-manager",
}

// Users that ask, besides those of Params.
const (
	Admin               = "admin"
	GarbageCollector    = "system:serviceaccount:kube-system:generic-garbage-collector"
	NamespaceController = "system:serviceaccount:kube-system:namespace-controller"
	// ControllerManager is both of them where controllers have no accounts of their own.
	ControllerManager = "system:kube-controller-manager"
)

// Object is an object as JSON decodes it.
type Object = map[string]any

// A Case is one request and what becomes of it.
type Case struct {
	Name      string
	User      string
	Operation string // CREATE, UPDATE or DELETE
	Old       Object // nil with CREATE
	New       Object // nil with DELETE
	DryRun    bool
	// May is what the policies find that RBAC allows the user beside the request itself, as
	// `prioritize capacityrequests.demand.nstance.dev in shop`.
	May []string
	// SubResource that the request is for, if it is for one.
	SubResource string
	// Groups of the user.
	Groups []string
	// Params are the objects that a policy with parameters looks at.
	Params []Object
	// Ending is whether the namespace is being deleted.
	Ending bool
	// Earlier is whether Old was stored before the policies were in force, which refuse it.
	Earlier bool
	// Refused is a part of the refusal; empty: nothing is refused.
	Refused string
}

const (
	staticPool = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachinePool
metadata: {name: workers}
spec: {group: workers, shards: [a]}
status: {isStatic: true}
`
	dynamicPool = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachinePool
metadata: {name: workers}
spec: {group: workers, shards: [a]}
`
	staticMachinePool = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: workers, labels: {nstance.dev/static: "true"}}
`
	dynamicMachinePool = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: workers, labels: {team: a}}
`
	ourCluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: example--default, labels: {nstance.dev/managed: "true"}}
`
	writtenCluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: written}
spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: NstanceCluster, name: example--default}}
`
	otherCluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: other, labels: {team: a}}
spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DockerCluster, name: other}}
`
	bareCluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: bare}
`
	part = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceShardGroup
metadata: {name: workers--a}
spec: {group: workers, shard: a, size: 3}
`
	grownPart = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceShardGroup
metadata: {name: workers--a}
spec: {group: workers, shard: a, size: 4}
`
	ownedPart = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceShardGroup
metadata:
  name: workers--a
  ownerReferences:
    - {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: NstanceMachinePool, name: workers, uid: u1, controller: true}
spec: {group: workers, shard: a, size: 3}
`
	template = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachineTemplate
metadata: {name: workers, annotations: {note: "1"}}
spec: {template: {spec: {groupRef: {name: workers}}}}
`
	changedTemplate = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachineTemplate
metadata: {name: workers, annotations: {note: "2"}}
spec: {template: {spec: {groupRef: {name: other}}}}
`
	managed = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachine
metadata: {name: knd01h455vb4pex5vsknk084sn020}
spec: {groupRef: {name: workers}, mode: Managed, instanceID: knd01h455vb4pex5vsknk084sn020}
`
	ownedManaged = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachine
metadata:
  name: knd01h455vb4pex5vsknk084sn020
  ownerReferences:
    - {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: NstanceMachinePool, name: workers, uid: u1}
    - {apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: knd01h455vb4pex5vsknk084sn020, uid: u2, controller: true}
spec: {groupRef: {name: workers}, mode: Managed, instanceID: knd01h455vb4pex5vsknk084sn020}
`
	orphanManaged = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachine
metadata:
  name: knd01h455vb4pex5vsknk084sn020
  ownerReferences:
    - {apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: knd01h455vb4pex5vsknk084sn020, uid: u2, controller: true}
spec: {groupRef: {name: workers}, mode: Managed, instanceID: knd01h455vb4pex5vsknk084sn020}
`
	onDemand = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachine
metadata: {name: one}
spec: {groupRef: {name: workers}, mode: OnDemand}
`
	placed = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachine
metadata: {name: one}
spec: {groupRef: {name: workers}, mode: OnDemand, shard: a, instanceID: knd01h455vb4pex5vsknk084sn020, providerID: "aws:///a/i-1"}
`
	provided = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachinePool
metadata: {name: workers}
spec: {group: workers, shards: [a], providerID: "nstance://example/default/workers", providerIDList: ["aws:///a/i-1", "aws:///a/i-2"]}
`
	resizedProvided = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachinePool
metadata: {name: workers}
spec: {group: workers, shards: [a, b], instanceType: large, providerID: "nstance://example/default/workers", providerIDList: ["aws:///a/i-1", "aws:///a/i-2"]}
`
	shortened = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachinePool
metadata: {name: workers}
spec: {group: workers, shards: [a], providerID: "nstance://example/default/workers", providerIDList: ["aws:///a/i-2"]}
`
)

// Refusals, each with its way out.
const (
	refusedStatic   = " workers is static: without it its group goes back to what the configuration of its servers says; annotate it nstance.dev/allow-static-delete=true and delete it again"
	refusedLabel    = "MachinePool workers is static: its label nstance.dev/static guards it and is immutable; annotate it nstance.dev/allow-static-delete=true first to take it off"
	refusedCluster  = " takes all its pools and their machines with it; annotate it nstance.dev/allow-cluster-delete=true and delete it again"
	refusedPart     = "NstanceShardGroup workers--a takes the instances of its group on this shard with it; take the shard out of the pool, or annotate it nstance.dev/allow-shardgroup-delete=true and delete it again"
	refusedSpec     = "NstanceShardGroup workers--a: spec is written by the operator alone; change the pool"
	refusedTemplate = "NstanceMachineTemplate workers: spec is immutable; create another template and reference that one"
	refusedFields   = " is written by the operator alone; leave it as it is (kubectl apply and patch keep what they do not name, replace does not)"
	refusedManaged  = "NstanceMachine knd01h455vb4pex5vsknk084sn020: spec.mode: Managed is the operator's to use; leave mode out"
)

// Cases returns the table. Each call returns new objects.
func Cases() []Case {
	cases := []Case{
		{Name: "another cluster may go", User: Admin, Operation: "DELETE", Old: parse(otherCluster)},
		{Name: "so may one of no infrastructure yet", User: Admin, Operation: "DELETE", Old: parse(bareCluster)},
		{Name: "a pool may go", User: Admin, Operation: "DELETE", Old: parse(dynamicPool)},
		{Name: "with its MachinePool", User: Admin, Operation: "DELETE", Old: parse(dynamicMachinePool)},
		{Name: "a part's size is not for people", User: Admin, Operation: "UPDATE", Old: parse(part), New: parse(grownPart), Refused: refusedSpec},
		{Name: "nor for Cluster API", User: Params.Core, Operation: "UPDATE", Old: parse(part), New: parse(grownPart), Refused: refusedSpec},
		{Name: "but for the operator", User: Params.User, Operation: "UPDATE", Old: parse(part), New: parse(grownPart)},
		{Name: "a part is not made by people", User: Admin, Operation: "CREATE", New: parse(part), Refused: refusedSpec},
		{Name: "but by the operator", User: Params.User, Operation: "CREATE", New: parse(part)},
		{Name: "a part may be moved here with its pool", User: Admin, Operation: "CREATE", New: parse(ownedPart)},
		{Name: "a part may be annotated", User: Admin, Operation: "UPDATE", Old: parse(part), New: annotated(part, "a", "b")},
		{Name: "a template stays", User: Admin, Operation: "UPDATE", Old: parse(template), New: parse(changedTemplate), Refused: refusedTemplate},
		{Name: "for the operator too", User: Params.User, Operation: "UPDATE", Old: parse(template), New: parse(changedTemplate), Refused: refusedTemplate},
		{Name: "its metadata may change", User: Admin, Operation: "UPDATE", Old: parse(template), New: annotated(template, "note", "2")},
		{
			Name: "the topology controller may try a change", User: Params.Core, Operation: "UPDATE", DryRun: true,
			Old: parse(template), New: annotated(changedTemplate, "topology.cluster.x-k8s.io/dry-run", ""),
		},
		{
			Name: "but not make it", User: Params.Core, Operation: "UPDATE",
			Old: parse(template), New: annotated(changedTemplate, "topology.cluster.x-k8s.io/dry-run", ""), Refused: refusedTemplate,
		},
		{
			Name: "a person's dry run shows the refusal", User: Admin, Operation: "UPDATE", DryRun: true,
			Old: parse(template), New: parse(changedTemplate), Refused: refusedTemplate,
		},
		{Name: "managed machines are not for people", User: Admin, Operation: "CREATE", New: parse(managed), Refused: refusedManaged},
		{Name: "they are for the operator", User: Params.User, Operation: "CREATE", New: parse(managed)},
		{Name: "they may be moved here with their pool", User: Admin, Operation: "CREATE", New: parse(ownedManaged)},
		{Name: "but not without it", User: Admin, Operation: "CREATE", New: parse(orphanManaged), Refused: refusedManaged},
		{Name: "machines on demand are for all", User: Admin, Operation: "CREATE", New: parse(onDemand)},
	}
	cases = append(cases, fields()...)
	cases = append(cases, guards()...)
	cases = append(cases, sizes()...)
	for _, guarded := range []struct{ what, object, permission, refused string }{
		{"static pool", staticPool, "nstance.dev/allow-static-delete", "NstanceMachinePool" + refusedStatic},
		{"MachinePool of a static pool", staticMachinePool, "nstance.dev/allow-static-delete", "MachinePool" + refusedStatic},
		{"cluster of the operator", ourCluster, "nstance.dev/allow-cluster-delete", "Cluster example--default" + refusedCluster},
		{"cluster of somebody, for our machines", writtenCluster, "nstance.dev/allow-cluster-delete", "Cluster written" + refusedCluster},
		{"part", part, "nstance.dev/allow-shardgroup-delete", refusedPart},
	} {
		cases = append(cases, deletes(guarded.what, guarded.object, guarded.permission, guarded.refused)...)
	}
	return cases
}

// sizes are the requests for a number of instances.
func sizes() []Case {
	sized := func(kind string, replicas int) Object {
		return parse(fmt.Sprintf("apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachinePool\nmetadata: {name: workers}\n"+
			"spec: {replicas: %d, template: {spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: %s, name: workers}}}}", replicas, kind))
	}
	named := func(name string, object Object) Object {
		object["metadata"].(Object)["name"] = name
		return object
	}
	const pool, refused = "NstanceMachinePool", "spec.replicas of MachinePool workers is 10001; a pool has at most 10000 instances over all shards"
	return []Case{
		{Name: "a pool as great as it can be", User: Admin, Operation: "CREATE", New: sized(pool, 10000)},
		{Name: "a greater one", User: Admin, Operation: "CREATE", New: sized(pool, 10001), Refused: refused},
		{Name: "a pool that becomes too great", User: Admin, Operation: "UPDATE", Old: sized(pool, 3), New: sized(pool, 10001), Refused: refused},
		{Name: "one that is too great becomes smaller", User: Admin, Operation: "UPDATE", Old: named("early", sized(pool, 20000)), New: named("early", sized(pool, 10001)), Earlier: true},
		{Name: "a pool of another provider", User: Admin, Operation: "CREATE", New: sized("DockerMachinePool", 10001)},
	}
}

// fields are the requests to change what the operator writes into specs.
func fields() []Case {
	pool, machine := "NstanceMachinePool workers: ", "NstanceMachine one: "
	cases := []Case{
		{
			Name: "a pool that is replaced by its manifest", User: Admin, Operation: "UPDATE",
			Old: parse(provided), New: parse(dynamicPool), Refused: pool + "spec.providerID, spec.providerIDList" + refusedFields,
		},
		{
			Name: "provider ids that nobody knows of", User: Admin, Operation: "UPDATE",
			Old: parse(dynamicPool), New: parse(provided), Refused: pool + "spec.providerID, spec.providerIDList" + refusedFields,
		},
		{Name: "the rest of a pool's spec is for people", User: Admin, Operation: "UPDATE", Old: parse(provided), New: parse(resizedProvided)},
		{Name: "a pool without provider ids may be annotated", User: Admin, Operation: "UPDATE", Old: parse(dynamicPool), New: annotated(dynamicPool, "a", "b")},
		{Name: "a pool is moved here with its provider ids", User: Admin, Operation: "CREATE", New: parse(provided)},
		{Name: "a move that is repeated", User: Admin, Operation: "UPDATE", Old: parse(provided), New: annotated(provided, "a", "b")},
		{
			Name: "a machine that is placed by hand", User: Admin, Operation: "UPDATE",
			Old: parse(onDemand), New: parse(placed), Refused: machine + "spec.instanceID, spec.providerID, spec.shard" + refusedFields,
		},
		{Name: "a machine is placed by the operator", User: Params.User, Operation: "UPDATE", Old: parse(onDemand), New: parse(placed)},
		{Name: "a machine is moved here with its instance", User: Admin, Operation: "CREATE", New: parse(placed)},
		{Name: "Cluster API annotates a machine", User: Params.Core, Operation: "UPDATE", Old: parse(placed), New: annotated(placed, "a", "b")},
		{Name: "the operator strikes off an instance", User: Params.User, Operation: "UPDATE", Old: parse(provided), New: parse(shortened)},
	}
	for _, user := range []string{Admin, Params.Core} {
		cases = append(cases, Case{
			Name: user + " strikes off an instance", User: user, Operation: "UPDATE",
			Old: parse(provided), New: parse(shortened), Refused: pool + "spec.providerIDList" + refusedFields,
		})
	}
	return cases
}

// guards are the requests to change the label by which a MachinePool is guarded.
func guards() []Case {
	blank := annotated(staticMachinePool, "a", "b")
	blank["metadata"].(Object)["labels"] = Object{"nstance.dev/static": "false"}
	return []Case{
		{Name: "the guard of a MachinePool stays", User: Admin, Operation: "UPDATE", Old: parse(staticMachinePool), New: parse(dynamicMachinePool), Refused: refusedLabel},
		{Name: "nor does it say no", User: Admin, Operation: "UPDATE", Old: parse(staticMachinePool), New: blank, Refused: refusedLabel},
		{Name: "the operator takes it off", User: Params.User, Operation: "UPDATE", Old: parse(staticMachinePool), New: parse(dynamicMachinePool)},
		{
			Name: "whoever may delete it takes it off", User: Admin, Operation: "UPDATE",
			Old: annotated(staticMachinePool, "nstance.dev/allow-static-delete", "true"), New: parse(dynamicMachinePool),
		},
		{
			Name: "but not who allows it by the way", User: Admin, Operation: "UPDATE",
			Old: parse(staticMachinePool), New: annotated(dynamicMachinePool, "nstance.dev/allow-static-delete", "true"), Refused: refusedLabel,
		},
		{Name: "a guarded MachinePool may change", User: Admin, Operation: "UPDATE", Old: parse(staticMachinePool), New: annotated(staticMachinePool, "a", "b")},
		{Name: "so may another", User: Admin, Operation: "UPDATE", Old: parse(dynamicMachinePool), New: annotated(dynamicMachinePool, "a", "b")},
		{Name: "the guard may be put on", User: Admin, Operation: "UPDATE", Old: parse(dynamicMachinePool), New: parse(staticMachinePool)},
	}
}

// deletes are the requests to delete something that needs permission.
func deletes(what, object, permission, refused string) []Case {
	var cases []Case
	for _, user := range []string{Params.User, Params.Core, GarbageCollector, NamespaceController, ControllerManager} {
		cases = append(cases, Case{Name: user + " deletes a " + what, User: user, Operation: "DELETE", Old: parse(object)})
	}
	return append(cases,
		Case{Name: "a " + what + " stays", User: Admin, Operation: "DELETE", Old: parse(object), Refused: refused},
		Case{Name: "a " + what + " goes with permission", User: Admin, Operation: "DELETE", Old: annotated(object, permission, "true")},
		Case{
			Name: "a " + what + " stays without a clear yes", User: Admin, Operation: "DELETE",
			Old: annotated(object, permission, "false"), Refused: refused,
		},
		Case{
			Name: "a " + what + " goes where it was moved", User: Admin, Operation: "DELETE",
			Old: annotated(object, "clusterctl.cluster.x-k8s.io/delete-for-move", ""),
		},
		Case{Name: "a " + what + " goes with its namespace", User: Admin, Operation: "DELETE", Old: parse(object), Ending: true},
	)
}

// parse decodes YAML that stands in this package, as an object of the operator's namespace.
func parse(text string) Object {
	object := Object{}
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		panic(fmt.Sprintf("policytest: %v in:\n%s", err, text))
	}
	object["metadata"].(Object)["namespace"] = Params.Namespace
	return object
}

// annotated is an object with one more annotation.
func annotated(text, key, value string) Object {
	object := parse(text)
	metadata := object["metadata"].(Object)
	annotations, _ := metadata["annotations"].(Object)
	if annotations == nil {
		annotations = Object{}
	}
	annotations[key] = value
	metadata["annotations"] = annotations
	return object
}
