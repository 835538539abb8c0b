//go:build kube

package operator_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/crdtest"
)

// judge is an API server that serves our kinds and has nobody else there: no policy, no controller, no operator. The
// tests of schemas share it.
var judge struct {
	lasting
	cluster *kube.Cluster
}

// startJudge starts it for the first test that needs it. It is the first thing that these tests do, while they still
// come one after another.
func startJudge(t *testing.T) *kube.Cluster {
	t.Helper()
	kube.Needs(t, kube.BeAlone)
	if judge.cluster == nil {
		judge.TB = t
		defer judge.pass()
		c := kube.Start(&judge, kube.Config{})
		installKinds(&judge, c, crds.All, crds.Demand, crds.Hosts)
		judge.cluster = c
	}
	return judge.cluster
}

// O15: an API server with nobody else there takes and refuses what the table of the
// schemas says, rules about what is stored and its status included.
func TestO15_TheSchemasOnARealServer(t *testing.T) {
	c := startJudge(t)
	t.Parallel()
	admin := clientOf(t, c.Admin(), nil)
	checkSchemas(t, crdtest.Cases(), func(object *unstructured.Unstructured) dynamic.ResourceInterface {
		return resourceOf(admin, object, "default")
	})
}

// startWith starts a cluster that serves these kinds, and nothing else of ours.
func startWith(t *testing.T, kinds func() ([]*apiextensionsv1.CustomResourceDefinition, error)) *kube.Cluster {
	t.Helper()
	c := kube.Start(t, kube.Config{})
	installKinds(t, c, kinds)
	return c
}

// installKinds has a cluster serve kinds of ours.
func installKinds(t testing.TB, c *kube.Cluster, of ...func() ([]*apiextensionsv1.CustomResourceDefinition, error)) {
	t.Helper()
	for _, kinds := range of {
		all, err := kinds()
		if err != nil {
			t.Fatal(err)
		}
		for _, crd := range all {
			apply(t, c, convert(t, crd))
		}
	}
}

// checkSchemas checks that a server takes and refuses what a table says; of says where objects are.
func checkSchemas(t *testing.T, cases []crdtest.Case, of func(*unstructured.Unstructured) dynamic.ResourceInterface) {
	t.Helper()
	for _, test := range cases {
		t.Run(test.Name, func(t *testing.T) {
			sent := decoded(test.Sent)
			err := request(t, of(sent), test, sent)
			switch {
			case test.Refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.Refused != "" && err == nil:
				t.Errorf("accepted, want refused: %s", test.Refused)
			case test.Refused != "" && !strings.Contains(err.Error(), test.Refused):
				t.Errorf("refused with %v, want a part of it to be %q", err, test.Refused)
			}
		})
	}
}

// seen is a command of kubectl, and the lines that it prints.
type seen struct{ command, want []string }

// see checks what people see.
func see(t *testing.T, c *kube.Cluster, all []seen) {
	t.Helper()
	for _, tt := range all {
		out, err := c.Kubectl(t.Context(), tt.command...)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(tt.want, withoutAges(out)); diff != "" {
			t.Errorf("kubectl %v, without ages (-want +got):\n%s", tt.command, diff)
		}
	}
}

// withoutAges are the lines of a table with single spaces, ages of less than two minutes left out.
func withoutAges(out string) []string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		var cells []string
		for _, cell := range strings.Fields(line) {
			if age := strings.Trim(cell, "0123456789"); age != "s" && age != "<invalid>" {
				cells = append(cells, cell)
			}
		}
		lines = append(lines, strings.Join(cells, " "))
	}
	return lines
}

// request makes the request of a case, and leaves nothing behind.
func request(t *testing.T, client dynamic.ResourceInterface, test crdtest.Case, sent *unstructured.Unstructured) error {
	t.Helper()
	if test.Stored == nil {
		_, err := client.Create(t.Context(), sent, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	stored := store(t, client, decoded(test.Stored))
	defer func() {
		if err := client.Delete(t.Context(), stored.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	sent.SetResourceVersion(stored.GetResourceVersion())
	options := metav1.UpdateOptions{DryRun: dryRun}
	if test.Status {
		_, err := client.UpdateStatus(t.Context(), sent, options)
		return err
	}
	_, err := client.Update(t.Context(), sent, options)
	return err
}

// decoded returns an object of a table as one of its own.
func decoded(object crdtest.Object) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
}

// printed is one object of each kind, with everything that is shown of it.
const printed = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceCluster
metadata: {name: example--default, labels: {cluster.x-k8s.io/cluster-name: example}}
spec: {controlPlaneEndpoint: {host: api.example.com, port: 6443}}
status: {shardsReachable: 2/3, conditions: [{type: Ready, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}]}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: NstanceControlPlane
metadata: {name: example--default, labels: {cluster.x-k8s.io/cluster-name: example}}
spec: {controlPlaneEndpoint: {host: api.example.com, port: 6443}}
status: {version: v1.36.3, conditions: [{type: Ready, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}]}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachinePool
metadata: {name: workers}
spec: {group: web, shards: [a, b]}
status: {desiredReplicas: 4, replicas: 3, shardCount: 2, isStatic: true, instanceType: m7i.large, conditions: [{type: Ready, status: "False", reason: R, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}]}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceShardGroup
metadata: {name: web--a}
spec: {group: web, shard: a, size: 3}
status: {replicas: 2, pending: 1, draining: 0, unhealthy: 0, isStatic: true, conditions: [{type: Ready, status: "False", reason: R, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}, {type: ShardReachable, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}]}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachine
metadata: {name: knd01h455vb4pex5vsknk084sn020}
spec: {groupRef: {name: web}, shard: a, mode: Managed, instanceID: knd01h455vb4pex5vsknk084sn020, providerID: "nstance://a/x"}
status: {instanceState: running, nodeRef: {name: n1}, conditions: [{type: Ready, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}]}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachineTemplate
metadata: {name: batch}
spec: {template: {spec: {groupRef: {name: web}, instanceType: m7i.large}}}
status: {conditions: [{type: GroupKnown, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}]}
`

func TestPeopleSee(t *testing.T) {
	startCluster(t)
	t.Parallel()
	c := *common.cluster
	c.namespace = "people"
	c.own(t)
	for _, object := range objects(t, printed) {
		store(t, resourceOf(c.admin, object, c.namespace), object)
	}
	want := map[string][]string{
		"nsc":  {"NAME CLUSTER ENDPOINT SHARDS READY", "example--default example api.example.com 2/3 True"},
		"nscp": {"NAME CLUSTER ENDPOINT VERSION READY", "example--default example api.example.com v1.36.3 True"},
		"nsmp": {"NAME GROUP MODE DESIRED REPLICAS MACHINES IDLE SPEND SHARDS STATIC TYPE READY", "workers web 4 3 2 true m7i.large False"},
		"nssg": {"NAME GROUP SHARD MODE SIZE RUNNING PENDING STATIC REACHABLE READY", "web--a web a 3 2 1 true True False"},
		"nsm": {
			"NAME GROUP SHARD MODE INSTANCE STATE PROVIDERID NODE READY",
			"knd01h455vb4pex5vsknk084sn020 web a Managed knd01h455vb4pex5vsknk084sn020 running nstance://a/x n1 True",
		},
		"nsmt": {"NAME GROUP TYPE KNOWN", "batch web m7i.large True"},
	}
	for name, want := range want {
		out, err := c.Kubectl(t.Context(), "get", name, "-n", c.namespace)
		if err != nil {
			t.Error(err)
			continue
		}
		var got []string
		for line := range strings.Lines(out) {
			cells := strings.Fields(line)
			got = append(got, strings.Join(cells[:len(cells)-1], " ")) // the last one is the age
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("kubectl get %s, without ages (-want +got):\n%s", name, diff)
		}
	}
}
