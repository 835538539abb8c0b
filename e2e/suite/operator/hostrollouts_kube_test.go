//go:build kube && fleet

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"nstance.dev/e2e/env/kube"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/controllers/hosts/rollout"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/hosts/holds"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/policies/policytest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// rolled are host machines to which an operator rolls versions out, with the engine that drains Nodes.
type rolled struct {
	*lives
	began time.Time
}

// newRolled makes a fleet that runs version 1, and starts the operator.
func newRolled(t *testing.T, fleet int, strategy *hostsv1.RollingUpdate) (*rolled, []string) {
	t.Helper()
	r, ids := newFleet(t, fleet, strategy)
	r.with = rollsOut(r.lives)
	r.run()
	for _, id := range ids {
		r.await(id, "the controller has seen the fleet", joined(1))
	}
	r.began = time.Now()
	return r, ids
}

// newFleet makes a fleet that runs version 1, of which no operator knows yet.
func newFleet(t *testing.T, fleet int, strategy *hostsv1.RollingUpdate) (*rolled, []string) {
	t.Helper()
	l := newLives(t)
	all, err := kube.ClusterAPIDefinitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range all {
		kind, _, err := unstructured.NestedString(object.Object, "spec", "names", "kind")
		if err != nil {
			t.Fatal(err)
		}
		if kind == "Machine" || kind == "Cluster" {
			apply(t, l.cluster, object)
		}
	}
	l.took = 200 * time.Millisecond
	l.configure(t)
	l.edit(t, func(s *hostsv1.MachineConfigurationSpec) {
		s.UpdateStrategy = &hostsv1.UpdateStrategy{Type: hostsv1.UpdateRolling, RollingUpdate: strategy}
	})
	ids := hostIDs(t, fleet)
	l.known.list(ids...)
	l.awaitDesired(t, fleet, 1, hostsv1.ReasonNotPaved)
	content, err := l.versions.Lock(t.Context(), "gpu", 1, ids[0])
	if err != nil {
		t.Fatal(err)
	}
	var made errgroup.Group
	made.SetLimit(16)
	for _, id := range ids {
		made.Go(func() error { return l.settled(id, content.Reference) })
	}
	if err := made.Wait(); err != nil {
		t.Fatal(err)
	}
	return &rolled{l, time.Now()}, ids
}

// rollsOut starts rollouts and the drain engine beside the controller of node machines.
func rollsOut(l *lives) func(mgr ctrl.Manager, live client.Client, o controller.Options) error {
	return func(mgr ctrl.Manager, live client.Client, o controller.Options) error {
		for field, of := range nodes.NodeIndexes() {
			if err := mgr.GetFieldIndexer().IndexField(l.t.Context(), &corev1.Node{}, field, of); err != nil {
				return err
			}
		}
		events := mgr.GetEventRecorder("nstance-operator")
		requests := &rollout.Requests{}
		engine := drain.New(drain.Options{
			Client: mgr.GetClient(), Namespace: bootstrapNamespace, Workload: mgr.GetClient(), Live: live, Inventory: l.known.store,
			Sources: append(drain.Sources(), requests.Source(drain.Sources()...)), Server: func(string) (drain.Server, bool) { return nil, false },
			Events: events, MachineEvents: events, Evictions: rate.NewLimiter(50, 50), Concurrency: 20,
		})
		if err := engine.SetupWithManager(mgr, mgr, l.known.hub, o); err != nil {
			return err
		}
		return rollout.New(rollout.Options{
			Client: mgr.GetClient(), Live: live, Nodes: mgr.GetClient(), Inventory: l.known.store, Requests: requests, Wake: engine.Wake,
			Holds: &holds.Holds{Shard: func(string) (holds.Shard, bool) { return holding{l}, true }, Now: time.Now},
			Lock: func(ctx context.Context, configuration string, number int32, machine string) (hostsv1.VersionReference, error) {
				v, err := l.versions.Lock(ctx, configuration, number, machine)
				return v.Reference, err
			},
			Events: events, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		}).SetupWithManager(mgr, mgr, l.known.hub, o)
	}
}

// holding is a shard that lets every instance be put on hold.
type holding struct{ *lives }

// GetInstanceStatus implements [holds.Shard]: no rollout asks for it.
func (holding) GetInstanceStatus(context.Context, string) (*nstancev1.InstanceStatus, error) {
	return nil, errors.New("not asked for here")
}

// absence is what the audit log says of a machine that a rollout took: from when it was begun until its next Node was
// ready, and the rollout was done with it.
type absence struct {
	machine    string
	begun, end time.Time // end is zero: it is still away
}

// taken reads from the audit log which machines were away when. The first write of a rollout to a machine begins it,
// the second has its Node deleted, the third ends it.
func (r *rolled) taken() ([]absence, error) {
	requests, err := r.cluster.Audit()
	if err != nil {
		return nil, err
	}
	writes := map[string][]time.Time{}
	for _, q := range requests {
		if q.User == policytest.Params.User && q.Verb == "patch" && q.Resource == "hostmachines" && q.Subresource == "status" &&
			q.Code == 200 && strings.Contains(q.URI, "fieldManager=nstance-operator-hosts-rollout") && q.Time.After(r.began) {
			writes[q.Name] = append(writes[q.Name], q.Time)
		}
	}
	var all []absence
	for machine, at := range writes {
		for i := 0; i < len(at); i += 3 {
			a := absence{machine: machine, begun: at[i]}
			if i+2 < len(at) {
				a.end = at[i+2]
			}
			all = append(all, a)
		}
	}
	return all, nil
}

// deleted are the times at which the operator deleted Nodes, from the audit log.
func (r *rolled) deleted() (at []time.Time, err error) {
	requests, err := r.cluster.Audit()
	for _, q := range requests {
		if q.User == policytest.Params.User && q.Verb == "delete" && q.Resource == "nodes" && q.Code == 200 {
			at = append(at, q.Time)
		}
	}
	return at, err
}

// most is how many machines were away at once.
func most(all []absence) (n int) {
	type edge struct {
		at time.Time
		by int
	}
	var edges []edge
	for _, a := range all {
		edges = append(edges, edge{a.begun, 1})
		if !a.end.IsZero() {
			edges = append(edges, edge{a.end, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.by - b.by
	})
	is := 0
	for _, e := range edges {
		is += e.by
		n = max(n, is)
	}
	return n
}

// awaitCondition waits for a condition of the configuration, with a reason.
func (w *hostWorld) awaitCondition(t *testing.T, condition, reason string) {
	t.Helper()
	kube.Await(t, condition+" "+reason, func(ctx context.Context) error {
		c := &hostsv1.MachineConfiguration{}
		if err := w.admin.Get(ctx, client.ObjectKey{Name: "gpu"}, c); err != nil {
			return err
		}
		if is := meta.FindStatusCondition(c.Status.Conditions, condition); is == nil || is.Reason != reason {
			return fmt.Errorf("%+v", is)
		}
		return nil
	})
}

// awaitRollout waits for a condition of the configuration, with a reason.
func (r *rolled) awaitRollout(t *testing.T, condition, reason string, least int32) {
	t.Helper()
	kube.AwaitFor(t, 25*time.Minute, condition+" "+reason, func(ctx context.Context) error {
		c := &hostsv1.MachineConfiguration{}
		if err := r.admin.Get(ctx, client.ObjectKey{Name: "gpu"}, c); err != nil {
			return err
		}
		is := meta.FindStatusCondition(c.Status.Conditions, condition)
		if is == nil || is.Reason != reason || c.Status.Rollout == nil || c.Status.Rollout.Target < least {
			return fmt.Errorf("%+v, rollout %+v", is, c.Status.Rollout)
		}
		return nil
	})
}

func rolling(maxUnavailable int32, windows ...hostsv1.Window) *hostsv1.RollingUpdate {
	budget, ready, failures := intstr.FromInt32(maxUnavailable), int32(1), int32(3)
	return &hostsv1.RollingUpdate{MaxUnavailable: &budget, MinReadySeconds: &ready, MaxFailures: &failures, DrainTimeout: "5m", Windows: windows}
}

// M66, M67, M68: a version is rolled out to a fleet, at most ten machines of which are away at any moment, as the audit
// log says. The next version is bad: the rollout halts at the third failure, and every machine runs what it ran before.
func TestM66M67M68_ARolloutOverAFleet(t *testing.T) {
	ownCluster(t)
	const budget = 10
	fleet := *hostFleet
	r, ids := newRolled(t, fleet, rolling(budget))
	began := time.Now()
	r.edit(t, func(s *hostsv1.MachineConfigurationSpec) { s.Template.Kubernetes.Version = "v1.36.1" })
	r.awaitRollout(t, hostsv1.ConditionRollingOut, hostsv1.ReasonUpToDate, 2)
	t.Logf("measured: %d machines in %v", fleet, time.Since(began).Round(time.Second))
	r.check(t, ids, 2, budget, fleet)

	r.mu.Lock()
	r.bad = map[int32]bool{3: true}
	r.mu.Unlock()
	r.began = time.Now()
	r.edit(t, func(s *hostsv1.MachineConfigurationSpec) { s.Template.Kubernetes.Version = "v1.36.2" })
	r.awaitRollout(t, hostsv1.ConditionRolloutHalted, hostsv1.ReasonMaxFailures, 3)
	r.awaitIdle(t)
	for _, id := range ids {
		r.await(id, "it runs version 2 again", func(m *hostsv1.HostMachine) bool {
			return m.Status.Configuration.Applied.Version == 2 && m.Status.NodeRef.UID != "" && m.Status.Rollout == nil
		})
	}
	all, err := r.taken()
	if err != nil {
		t.Fatal(err)
	}
	deleted, err := r.deleted()
	if err != nil {
		t.Fatal(err)
	}
	if n := most(all); n > budget {
		t.Errorf("%d machines were away at once, and %d may be", n, budget)
	}
	failed := len(deleted) - fleet
	t.Logf("measured: %d machines were begun, %d of them repaved, before the bad version halted it", len(all), failed)
	if failed < 3 || failed > budget+2 {
		t.Errorf("%d machines were repaved into the bad version", failed)
	}
}

// check checks what the audit log says of a rollout of all machines.
func (r *rolled) check(t *testing.T, ids []string, version int32, budget, fleet int) {
	t.Helper()
	for _, id := range ids {
		r.await(id, "it runs the version", func(m *hostsv1.HostMachine) bool {
			return m.Status.Configuration.Applied.Version == version && m.Status.Rollout == nil
		})
	}
	var all []absence
	kube.Await(t, "all writes are in the audit log", func(context.Context) (err error) {
		if all, err = r.taken(); err == nil && len(all) < fleet {
			err = fmt.Errorf("there are %d", len(all))
		}
		return err
	})
	n := most(all)
	t.Logf("measured: %d machines were begun, at most %d at once", len(all), n)
	if n > budget || n < min(budget, fleet)/2 || len(all) != fleet {
		t.Errorf("%d machines of %d were begun, %d of them at once; %d may be", len(all), fleet, n, budget)
	}
}

// awaitIdle waits until nothing of a rollout is left on any machine.
func (r *rolled) awaitIdle(t *testing.T) {
	t.Helper()
	kube.Await(t, "nothing is begun", func(ctx context.Context) error {
		var list hostsv1.HostMachineList
		if err := r.admin.List(ctx, &list); err != nil {
			return err
		}
		for i := range list.Items {
			if of := list.Items[i].Status.Rollout; of != nil {
				return fmt.Errorf("%s is %s", list.Items[i].Name, of.Stage)
			}
		}
		return nil
	})
}

// M96: with a window of twenty seconds in each minute nothing begins outside of it.
func TestM96_OutsideOfAWindowNothingBeginsInAFleet(t *testing.T) {
	ownCluster(t)
	const fleet = 12 // each takes three seconds at least: they do not fit into one window
	r, ids := newRolled(t, fleet, rolling(1, hostsv1.Window{Cron: "* * * * *", Duration: "20s"}))
	r.edit(t, func(s *hostsv1.MachineConfigurationSpec) { s.Template.Kubernetes.Version = "v1.36.1" })
	r.awaitRollout(t, hostsv1.ConditionRollingOut, hostsv1.ReasonUpToDate, 2)
	r.check(t, ids, 2, 1, fleet)
	all, err := r.taken()
	if err != nil {
		t.Fatal(err)
	}
	minutes := map[int64]bool{}
	for _, a := range all {
		minutes[a.begun.Unix()/60] = true
		if second := a.begun.Second(); second >= 21 { // the write takes its time
			t.Errorf("%s was begun at %s", a.machine, a.begun)
		}
	}
	if len(minutes) < 2 {
		t.Errorf("all were begun in one window: it shows nothing")
	}
}
