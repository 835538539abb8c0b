package cluster_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "nstance.dev/operator/api/controlplane/v1beta1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/cluster"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/operator/testworld"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const name = testworld.Cluster

var endpoint = clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}

type world struct {
	*testworld.World
	r       *cluster.Reconciler
	t       *testing.T
	asked   int // for the version of the API server
	version error
}

// inWorld runs a test with shards a and b. A Cluster of the world's own is there.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	testworld.Run(t, []string{"a", "b"}, func(t *testing.T, k *testworld.World) {
		w := &world{World: k, t: t}
		w.r = &cluster.Reconciler{
			Client: k.Client, Namespace: testworld.Namespace, Name: name, Endpoint: endpoint, OperatorVersion: "v1",
			ServerVersion: func(context.Context) (string, error) {
				w.asked++
				return "v1.36.3", w.version
			},
			Shards: func() []cluster.Shard {
				var all []cluster.Shard
				for _, s := range k.Set.Shards() {
					all = append(all, s)
				}
				return all
			},
			Inventory: k.Inventory, Events: k.Events, Now: time.Now,
		}
		test(t, w)
	})
}

func (w *world) pass() {
	w.t.Helper()
	if _, err := w.r.Reconcile(context.Background(), ctrl.Request{}); err != nil {
		w.t.Fatal(err)
	}
}

func TestTheObjectsOfAClusterAreMade(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Delete(name, &clusterv1.Cluster{})
		w.pass()
		w.pass()
		c, infra, plane := &clusterv1.Cluster{}, &infrav1.NstanceCluster{}, &controlplanev1.NstanceControlPlane{}
		if !w.Get(name, c) || !w.Get(name, infra) || !w.Get(name, plane) {
			t.Fatal("not all three are there")
		}
		if ref := c.Spec.InfrastructureRef; ref.Kind != "NstanceCluster" || ref.Name != name || ref.APIGroup != infrav1.GroupVersion.Group {
			t.Errorf("infrastructureRef %+v", ref)
		}
		if ref := c.Spec.ControlPlaneRef; ref.Kind != "NstanceControlPlane" || ref.APIGroup != controlplanev1.GroupVersion.Group {
			t.Errorf("controlPlaneRef %+v", ref)
		}
		if c.Labels[infrav1.LabelManaged] != "true" || infra.Spec.ControlPlaneEndpoint != endpoint {
			t.Errorf("labels %v, endpoint %v", c.Labels, infra.Spec.ControlPlaneEndpoint)
		}
		if !infra.Status.Initialization.Provisioned || !infra.Status.Ready || infra.Status.ShardsReachable != "2/2" {
			t.Errorf("status %+v", infra.Status)
		}
		if s := plane.Status; !s.Initialization.ControlPlaneInitialized || !s.ExternalManagedControlPlane || s.Version != "v1.36.3" {
			t.Errorf("status %+v", s)
		}
	})
}

// Whoever deletes the Cluster gets that: nothing is made again behind its back.
func TestF37_NothingIsMadeWhileTheClusterIsBeingDeleted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.pass()
		c := &clusterv1.Cluster{}
		w.Change(name, c, func() { c.Finalizers = []string{clusterv1.ClusterFinalizer} })
		w.Delete(name, c)
		w.Delete(name, &infrav1.NstanceCluster{})
		w.pass()
		if w.Get(name, &infrav1.NstanceCluster{}) {
			t.Error("the NstanceCluster is back")
		}
	})
}

func TestWhatAPersonWroteStays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := &clusterv1.Cluster{}
		w.Change(name, c, func() {
			c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "example.com", Kind: "Mine", Name: "mine"}
		})
		w.Create(&infrav1.NstanceCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       infrav1.NstanceClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "mine", Port: 1}},
		})
		w.pass()
		infra := &infrav1.NstanceCluster{}
		if w.Get(name, infra); infra.Spec.ControlPlaneEndpoint.Host != "mine" {
			t.Errorf("the endpoint is %v", infra.Spec.ControlPlaneEndpoint)
		}
		if w.Get(name, &controlplanev1.NstanceControlPlane{}) {
			t.Error("a control plane is made for a Cluster that has another one")
		}
		if !slices.ContainsFunc(w.Told(), func(e string) bool { return e[:len("EndpointChanged")] == "EndpointChanged" }) {
			t.Error("nobody is told of the other endpoint")
		}
	})
}

func TestAnEmptyEndpointIsFilledIn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Create(&infrav1.NstanceCluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
		w.pass()
		infra := &infrav1.NstanceCluster{}
		if w.Get(name, infra); infra.Spec.ControlPlaneEndpoint != endpoint || !infra.Status.Ready {
			t.Errorf("endpoint %v, status %+v", infra.Spec.ControlPlaneEndpoint, infra.Status)
		}
	})
}

// What others say of the cluster stays, and the status follows the shards.
func TestTheStatusFollowsTheShards(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Delete(name, &clusterv1.Cluster{})
		w.Shard("a").AddGroup(testworld.Tenant, shardtest.Group{Key: "web", Size: 2})
		w.After(time.Minute)
		w.pass()
		infra := &infrav1.NstanceCluster{}
		w.Get(name, infra)
		w.pass()
		w.Get(name, infra)
		if len(infra.Status.Shards) != 2 || infra.Status.Shards[0].Groups != 1 || infra.Status.Shards[0].Instances != 2 {
			t.Errorf("shards %+v", infra.Status.Shards)
		}
		version := infra.ResourceVersion
		w.pass()
		if w.Get(name, infra); infra.ResourceVersion != version {
			t.Error("a status that has not changed is written again")
		}
		if w.asked != 1 {
			t.Errorf("the API server was asked for its version %d times in a minute", w.asked)
		}

		w.version = errors.New("away")
		w.After(10 * time.Minute)
		w.pass()
		plane := &controlplanev1.NstanceControlPlane{}
		w.Get(name, plane)
		if c := meta.FindStatusCondition(plane.Status.Conditions, infrav1.ConditionAvailable); plane.Status.Version != "v1.36.3" || c.Status != metav1.ConditionUnknown {
			t.Errorf("version %q, Available %+v", plane.Status.Version, c)
		}
	})
}

// A crash between two of the three: the next pass makes what is missing.
func TestACrashBetweenTheObjects(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Delete(name, &clusterv1.Cluster{})
		healthy := w.r.Client
		w.r.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				if _, ok := object.(*controlplanev1.NstanceControlPlane); ok {
					return errors.New("the operator is killed")
				}
				return c.Create(ctx, object, options...)
			},
		})
		if _, err := w.r.Reconcile(t.Context(), ctrl.Request{}); err == nil {
			t.Error("an object that cannot be made is no error")
		}
		w.r.Client = healthy
		w.pass()
		if diff := cmp.Diff(true, w.Get(name, &controlplanev1.NstanceControlPlane{})); diff != "" {
			t.Error(diff)
		}
	})
}

// Nothing but the condition is written while the Cluster is paused, and what is missing stays
// missing.
func TestO16_OfAPausedClusterOnlyThatIsWritten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Delete(name, &clusterv1.Cluster{}) // the operator's own refers to a control plane
		w.pass()
		w.pass()
		infra := &infrav1.NstanceCluster{}
		w.Change(name, infra, func() { infra.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{} })
		c := &clusterv1.Cluster{}
		w.Change(name, c, func() { c.Spec.Paused = new(true) })
		for _, object := range []client.Object{infra, &controlplanev1.NstanceControlPlane{}} {
			if !w.Get(name, object) {
				t.Fatal("missing")
			}
			object.SetLabels(map[string]string{clusterv1.ClusterNameLabel: name})
			if err := w.Client.Update(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
		before := infra.DeepCopy()
		w.r.OperatorVersion = "v2"
		w.After(11 * time.Minute) // the version of the API server is old
		asked := w.asked
		w.pass()
		if !w.Get(name, infra) || infra.Spec.ControlPlaneEndpoint != before.Spec.ControlPlaneEndpoint || infra.Status.OperatorVersion != "v1" {
			t.Errorf("spec %+v, status %+v", infra.Spec, infra.Status)
		}
		if !meta.IsStatusConditionTrue(infra.Status.Conditions, infrav1.ConditionPaused) {
			t.Errorf("%+v", infra.Status.Conditions)
		}
		plane := &controlplanev1.NstanceControlPlane{}
		if !w.Get(name, plane) || !meta.IsStatusConditionTrue(plane.Status.Conditions, infrav1.ConditionPaused) || w.asked != asked {
			t.Errorf("control plane %+v, asked %d times", plane.Status, w.asked-asked)
		}
		w.Delete(name, plane)
		w.pass()
		if w.Get(name, plane) {
			t.Error("an object is made while the Cluster is paused")
		}
	})
}

// That the endpoint is another one is told once, not in each pass.
func TestTheOtherEndpointIsToldOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.pass()
		infra := &infrav1.NstanceCluster{}
		w.Change(name, infra, func() { infra.Spec.ControlPlaneEndpoint.Host = "old.example.com" })
		w.Told()
		for range 5 {
			w.pass()
			w.After(time.Minute)
		}
		if told := w.Told(); len(told) != 1 || !strings.HasPrefix(told[0], "EndpointChanged:") {
			t.Errorf("%q", told)
		}
	})
}
