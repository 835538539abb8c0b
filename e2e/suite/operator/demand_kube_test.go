//go:build kube

package operator_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/crdtest"
	"nstance.dev/operator/policies"
	"nstance.dev/operator/policies/policytest"
)

// demandResource is where objects of a kind of demand mode are.
func demandResource(client dynamic.Interface, object *unstructured.Unstructured) dynamic.ResourceInterface {
	if object.GetKind() == "AvailableCapacity" {
		return client.Resource(object.GroupVersionKind().GroupVersion().WithResource("availablecapacities"))
	}
	return resourceOf(client, object, object.GetNamespace())
}

// An API server with nobody else there takes and refuses of demand mode what the table of the schemas says, and
// shows what is asked for, what is on its way and what is missing.
func TestDemandSchemasOnARealServer(t *testing.T) {
	c := startJudge(t)
	t.Parallel()
	admin := clientOf(t, c.Admin(), nil)
	checkSchemas(t, crdtest.DemandCases(), func(object *unstructured.Unstructured) dynamic.ResourceInterface {
		return demandResource(admin, object)
	})
	t.Run("what people see", func(t *testing.T) { seeDemand(t, c) })
}

// printedDemand is one object of each kind, with everything that is shown of it, and a request that is not
// acknowledged.
const printedDemand = `
apiVersion: demand.nstance.dev/v1alpha1
kind: CapacityRequest
metadata: {name: web-0-0f3c9a51, namespace: default, ownerReferences: [{apiVersion: v1, kind: Pod, name: web-0, uid: u1}]}
spec: {priority: 7, resources: {requests: {cpu: 500m, memory: 1Gi}}}
status: {phase: Acknowledged, conditions: [{type: Translated, status: "True", reason: Translated, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}]}
---
apiVersion: demand.nstance.dev/v1alpha1
kind: CapacityRequest
metadata: {name: other, namespace: default}
spec: {resources: {requests: {cpu: "1"}}}
status: {phase: Pending}
---
apiVersion: demand.nstance.dev/v1alpha1
kind: UpcomingNode
metadata: {name: m1}
spec: {machineID: m1, shard: a, instanceType: m7i.large, zone: us-1a, capacityType: spot}
status: {phase: Failed, nodeRef: {name: n1, uid: u1}, lastError: JoinTimeout}
---
apiVersion: demand.nstance.dev/v1alpha1
kind: AvailableCapacity
metadata: {name: ac-1}
spec: {profileFingerprint: f1, confidence: None, costPerHour: "0.096", availableCount: 3}
status: {shortfall: {deficit: {cpu: "4"}, reason: NoMatchingOffer}}
`

func seeDemand(t *testing.T, c *kube.Cluster) {
	admin := clientOf(t, c.Admin(), nil)
	for _, object := range objects(t, printedDemand) {
		store(t, demandResource(admin, object), object)
	}
	see(t, c, []seen{
		{[]string{"get", "creq"}, []string{"NAME PHASE PRIORITY CPU MEMORY AGE", "other Pending 0 1", "web-0-0f3c9a51 Acknowledged 7 500m 1Gi"}},
		{[]string{"get", "creq", "--field-selector", "status.phase=Pending"}, []string{"NAME PHASE PRIORITY CPU MEMORY AGE", "other Pending 0 1"}},
		{[]string{"get", "creq", "web-0-0f3c9a51", "-o", "wide"}, []string{
			"NAME PHASE PRIORITY CPU MEMORY AGE POD TRANSLATED ACKNOWLEDGED", "web-0-0f3c9a51 Acknowledged 7 500m 1Gi web-0 Translated",
		}},
		{[]string{"get", "un", "-o", "custom-columns=NAME:.metadata.name"}, []string{"NAME", "m1"}},
		{[]string{"get", "ac", "-o", "custom-columns=NAME:.metadata.name"}, []string{"NAME", "ac-1"}},
	})
	for _, tt := range []struct {
		command []string
		said    []string
	}{
		{[]string{"get", "un", "-o", "wide"}, []string{"PHASE", "SINCE", "Failed", "m7i.large", "us-1a", "spot", "n1", "JoinTimeout", "SHARD"}},
		{[]string{"get", "ac", "-o", "wide"}, []string{"None", "3", "0.096", "NoMatchingOffer", `{"cpu":"4"}`}},
	} {
		out, err := c.Kubectl(t.Context(), tt.command...)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, said := range tt.said {
			if !strings.Contains(out, said) {
				t.Errorf("kubectl %v does not say %s:\n%s", tt.command, said, out)
			}
		}
	}
}

// The policy of requests holds on a real server, with the real authorizer: nobody forges the request of a Pod or
// outranks Pods who may not.
func TestDemandPoliciesOnARealServer(t *testing.T) {
	ownCluster(t)
	c := &court{cluster: startWith(t, crds.Demand), clients: map[string]dynamic.Interface{}, earlier: map[string]*unstructured.Unstructured{}}
	apply(t, c.cluster, objects(t, demandUsers)...)
	for _, user := range []string{policytest.Editor, policytest.Scheduler, policytest.Params.User} { // no masters, who may all
		config, err := c.cluster.User(user, "editors")
		c.clients[user] = clientOf(t, config, err)
	}
	c.owner = c.as(t, policytest.DemandParams.Controller)
	all, err := policies.Demand(policytest.DemandParams)
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range all {
		apply(t, c.cluster, convert(t, policy.Policy), convert(t, policy.Binding))
	}
	for _, test := range policytest.DemandCases() {
		if test.Refused != "" {
			c.awaitRefusal(t, test)
		}
	}
	for _, test := range policytest.DemandCases() {
		t.Run(test.Name, func(t *testing.T) {
			if wrong := judged(test, c.try(t, test)); wrong != nil {
				t.Error(wrong)
			}
		})
	}
}

// demandUsers may edit requests, one of them prioritize them too, and another elsewhere.
const demandUsers = `
apiVersion: v1
kind: Namespace
metadata: {name: nstance-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: edit-requests}
rules: [{apiGroups: [demand.nstance.dev], resources: [capacityrequests], verbs: [get, create, update, patch, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: prioritize-requests}
rules: [{apiGroups: [demand.nstance.dev], resources: [capacityrequests], verbs: [prioritize]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: editors}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit-requests}
subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: editors}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: scheduler, namespace: nstance-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: prioritize-requests}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: "system:serviceaccount:kueue-system:kueue"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: editor, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: prioritize-requests}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: editor}]
`
