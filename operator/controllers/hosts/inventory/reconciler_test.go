package inventory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	nstancev1 "nstance.dev/protos/nstance/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/operator/testworld"
)

// world is the reconciler between shards and an API server.
type world struct {
	*testworld.ShardWorld
	t      *testing.T
	api    client.WithWatch
	faults testworld.Faults
	r      *Reconciler
}

// run runs a test with shards a and b, each with three machines of group web, on which nodes run in node machines.
func run(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		w.ShardWorld = testworld.NewShardWorld(t, func(*shardtest.Cluster) {}, "a", "b")
		w.api = testworld.NewClientBuilder(t).WithIndex(&hostsv1.HostMachine{}, IndexField, Index).Build()
		for _, shard := range []string{"a", "b"} {
			w.Shard(shard).AddGroup(testworld.Tenant, shardtest.Group{Key: "web", Size: 3})
			w.Shard(shard).SetHosts(testworld.Tenant, "web", true)
		}
		w.After(time.Minute)
		w.restart()
		test(w)
	})
}

// restart makes a new reconciler, as a new process does.
func (w *world) restart() {
	w.r = New(Options{
		Client: w.faults.Through(w.api), Inventory: w.Inventory, Tenant: testworld.Tenant, Events: w.Events, Log: w.Log.Logger(), Now: time.Now,
	})
}

// look has the reconciler look at all that it would be told of, until nothing changes; it returns the errors.
func (w *world) look() (errs []error) {
	w.t.Helper()
	var changes []inventory.ShardChange
	for _, shard := range []string{"a", "b"} {
		changes = append(changes, inventory.ShardChange{Shard: shard, Change: inventory.Change{Kind: inventory.ShardChanged}})
	}
	for range 3 {
		for _, request := range w.r.Concerned(w.t.Context(), changes) {
			errs = append(errs, w.reconcile(request.Name))
		}
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

func (w *world) reconcile(id string) error {
	_, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: id}})
	return err
}

func (w *world) settle() {
	w.t.Helper()
	if errs := w.look(); len(errs) > 0 {
		w.t.Fatal(errors.Join(errs...))
	}
}

// machines are all HostMachines, by name.
func (w *world) machines() map[string]*hostsv1.HostMachine {
	w.t.Helper()
	var list hostsv1.HostMachineList
	if err := w.api.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	all := map[string]*hostsv1.HostMachine{}
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	return all
}

func (w *world) ids(shard, group string) (all []string) {
	for _, in := range w.Shard(shard).Instances(testworld.Tenant, group) {
		all = append(all, in.GetInstanceId())
	}
	slices.Sort(all)
	return all
}

// want checks which HostMachines there are.
func (w *world) want(when string, ids ...string) {
	w.t.Helper()
	slices.Sort(ids)
	if got := slices.Sorted(maps.Keys(w.machines())); !slices.Equal(got, ids) {
		w.t.Fatalf("%s there are HostMachines %v, want %v", when, got, ids)
	}
}

func (w *world) change(id string, change func(*hostsv1.HostMachine)) {
	w.t.Helper()
	m := w.machines()[id]
	change(m)
	if err := w.api.Update(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

// M3: each instance has a HostMachine that is named like it and says what it is; one whose template has no node
// machines has none. What is there is not written again.
func TestM3_InstancesHaveHostMachines(t *testing.T) {
	run(t, func(w *world) {
		w.Shard("a").AddGroup(testworld.Tenant, shardtest.Group{Key: "plain", Size: 2})
		w.After(time.Minute)
		w.settle()
		w.want("at first", slices.Concat(w.ids("a", "web"), w.ids("b", "web"))...)
		id := w.ids("a", "web")[0]
		m := w.machines()[id]
		if in := m.Spec.Instance; m.Spec.Provisioner != hostsv1.ProvisionerNstance || *in != (hostsv1.InstanceReference{Shard: "a", Tenant: testworld.Tenant, Group: "web", ID: hostsv1.InstanceID(id)}) {
			t.Errorf("it says %+v of its instance", m.Spec)
		}
		if m.Spec.ProviderID != "nstance://a/"+id {
			t.Errorf("provider id %q", m.Spec.ProviderID)
		}
		c := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionProvisioned)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != hostsv1.ReasonInstanceRunning {
			t.Errorf("provisioned: %+v", c)
		}
		w.faults.FailWrite(-1, false, nil)
		w.settle()
		if n := w.faults.Writes(); n > 0 {
			t.Errorf("%d writes although nothing has changed", n)
		}
		w.Shard("a").SetStatus(id, inventory.StatusUnhealthy)
		w.After(time.Minute)
		w.settle()
		if c = meta.FindStatusCondition(w.machines()[id].Status.Conditions, hostsv1.ConditionProvisioned); c.Status != metav1.ConditionFalse || c.Message != "the instance is unhealthy" {
			t.Errorf("provisioned: %+v", c)
		}
	})
}

// M3, M7: it goes with its instance: by its shard's word, or where a complete inventory lacks it. Of a shard that is
// out of sight, lists no more, or is no more configured nothing goes.
func TestM3M7_HostMachinesGoWithTheirInstances(t *testing.T) {
	run(t, func(w *world) {
		w.settle()
		a, b := w.ids("a", "web"), w.ids("b", "web")
		w.Shard("a").Condemn(a[0], "scale-down", 0)
		w.Shard("a").Settle()
		w.After(time.Minute)
		w.settle()
		left := slices.DeleteFunc(w.ids("a", "web"), func(id string) bool { return id == a[0] })
		w.want("deleted", slices.Concat(left, b)...)
		if said := strings.Join(w.Events.All(), "\n"); !strings.Contains(said, "MachineDeleted: HostMachine: the instance is gone: scale-down") {
			t.Errorf("events:\n%s", said)
		}
		w.Shard("b").Break(shardtest.Faults{Refuse: map[string]error{"": shardtest.Refusal(codes.Unavailable, "AWAY", "the shard is away")}})
		w.Shard("b").EndStreams()
		w.Shard("b").Vanish(b[0])
		w.After(20 * time.Minute)
		w.settle()
		w.want("out of sight", slices.Concat(left, b)...)
		w.Shard("b").Break(shardtest.Faults{})
		w.After(20 * time.Minute)
		w.settle()
		w.want("in sight again", slices.Concat(left, b[1:])...)
		w.Inventory.Configure([]string{"a"})
		w.settle()
		w.restart()
		for _, id := range b[1:] {
			if err := w.reconcile(id); err != nil {
				t.Fatal(err)
			}
		}
		w.want("not configured", slices.Concat(left, b[1:])...)
	})
}

// M3: what a new process finds in the cluster it expects from the shards: so many that are missing at once have to
// be missing twice.
func TestM3_ManyAbsencesAreDoubted(t *testing.T) {
	run(t, func(w *world) {
		w.Shard("a").AddGroup(testworld.Tenant, shardtest.Group{Key: "many", Size: 8})
		w.Shard("a").SetHosts(testworld.Tenant, "many", true)
		w.After(time.Minute)
		w.settle()
		store := inventory.NewStore(testworld.Tenant, nil)
		store.Configure([]string{"a"})
		if err := Remember(t.Context(), w.api, store, testworld.Tenant, []string{"a"}); err != nil {
			t.Fatal(err)
		}
		w.r.opts.Inventory = store
		all := slices.Collect(maps.Keys(w.machines()))
		now := time.Now()
		list := func(after time.Duration) {
			store.Update("a", func(s *inventory.Shard) []inventory.Change {
				return s.ListedInstances(inventory.InstanceList{Complete: true, Asked: now.Add(after)}, now.Add(after))
			})
		}
		store.Update("a", func(s *inventory.Shard) []inventory.Change { return s.Connected(1, now) })
		list(time.Second)
		w.settle()
		w.want("after an empty listing", all...)
		list(time.Minute)
		w.settle()
		w.want("after another one", w.ids("b", "web")...)
	})
}

// M4: the labels are right after every look, those of others are left alone, and those that the group's Nodes have no
// more go.
func TestM4_LabelsAreKeptRight(t *testing.T) {
	run(t, func(w *world) {
		w.Shard("a").SetNodeLabels(testworld.Tenant, "web", map[string]string{"example.com/tier": "batch", "example.com/old": "x"})
		w.After(time.Minute)
		w.settle()
		id := w.ids("a", "web")[0]
		own := map[string]string{
			hostsv1.LabelGroup: "web", hostsv1.LabelShard: "a", hostsv1.LabelTenant: testworld.Tenant, hostsv1.LabelTemplate: "base", hostsv1.LabelKind: "wrk",
			hostsv1.LabelArch: "amd64", hostsv1.LabelInstanceType: "small", hostsv1.LabelZone: "a", hostsv1.LabelOnDemand: "false",
		}
		with := func(more map[string]string) map[string]string {
			all := maps.Clone(own)
			maps.Copy(all, more)
			return all
		}
		equal(t, "at first", w.machines()[id].Labels, with(map[string]string{"example.com/tier": "batch", "example.com/old": "x"}))
		w.change(id, func(m *hostsv1.HostMachine) {
			m.Labels[hostsv1.LabelGroup], m.Labels["example.com/tier"], m.Labels["mine"] = "other", "mine", "1"
			delete(m.Labels, hostsv1.LabelZone)
		})
		w.settle()
		equal(t, "after an edit", w.machines()[id].Labels, with(map[string]string{"example.com/tier": "batch", "example.com/old": "x", "mine": "1"}))
		w.Shard("a").SetNodeLabels(testworld.Tenant, "web", map[string]string{"example.com/tier": "front"})
		w.After(time.Minute)
		w.restart()
		w.settle()
		equal(t, "after a change of the group", w.machines()[id].Labels, with(map[string]string{"example.com/tier": "front", "mine": "1"}))
		w.Shard("a").SetNodeLabels(testworld.Tenant, "web", nil)
		w.After(time.Minute)
		w.settle()
		m := w.machines()[id]
		equal(t, "without labels of the group", m.Labels, with(map[string]string{"mine": "1"}))
		if len(m.Annotations) > 0 {
			t.Errorf("annotations %v are left", m.Annotations)
		}
	})
}

// M3: users edit what is theirs, and the operator writes none of it.
func TestM3_WhatUsersSetStays(t *testing.T) {
	run(t, func(w *world) {
		w.settle()
		id := w.ids("a", "web")[0]
		three := int32(3)
		w.change(id, func(m *hostsv1.HostMachine) {
			m.Annotations = map[string]string{"mine": "1"}
			m.Labels["mine"] = "1"
			m.Labels[hostsv1.LabelShard] = "wrong"
			m.Spec.ConfigurationRef = &hostsv1.ConfigurationReference{Name: "gpu", Version: &three}
			m.Spec.FailurePolicy, m.Spec.Paused = hostsv1.FailureHold, true
		})
		before := w.machines()[id]
		w.settle()
		after := w.machines()[id]
		if after.Labels[hostsv1.LabelShard] != "a" || after.Labels["mine"] != "1" || after.Annotations["mine"] != "1" {
			t.Errorf("labels %v, annotations %v", after.Labels, after.Annotations)
		}
		if *after.Spec.ConfigurationRef.Version != 3 || after.Spec.FailurePolicy != hostsv1.FailureHold || !after.Spec.Paused || *before.Spec.Instance != *after.Spec.Instance {
			t.Errorf("spec %+v, was %+v", after.Spec, before.Spec)
		}
	})
}

// M3: in a group of mode demand it is there from the binding to its end; a warm machine has none.
func TestM3_BoundMachinesHaveHostMachines(t *testing.T) {
	run(t, func(w *world) {
		for _, shard := range []string{"a", "b"} {
			w.Shard(shard).SetHosts(testworld.Tenant, "web", false)
		}
		w.Shard("a").AddGroup(testworld.Tenant, shardtest.Group{Key: "batch", Size: 1, Demand: &nstancev1.DemandSettings{}})
		w.Shard("a").SetHosts(testworld.Tenant, "batch", true)
		w.After(time.Minute)
		w.settle()
		id := w.ids("a", "batch")[0]
		w.want("warm")
		for _, step := range []struct {
			binding string
			want    []string
		}{
			{"configuring", []string{id}}, {"bound", []string{id}}, {"draining", []string{id}}, {"idle", nil},
			{"configuring", []string{id}}, {"idle", nil},
		} {
			w.Shard("a").SetBinding(id, step.binding)
			w.After(time.Minute)
			w.settle()
			w.want(step.binding, step.want...)
		}
	})
}

// M5: a HostMachine of provisioner nstance asks for nothing, since its instance is there; for one of provisioner manual
// nothing is provisioned at all. Neither has the operator call a shard, and the latter is not even written to.
func TestM5_NothingIsProvisioned(t *testing.T) {
	run(t, func(w *world) {
		w.settle()
		m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "box"}, Spec: hostsv1.HostMachineSpec{Provisioner: hostsv1.ProvisionerManual}}
		if err := w.api.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		w.faults.FailWrite(-1, false, nil)
		if err := w.reconcile("box"); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if n := w.faults.Writes(); n > 0 {
			t.Errorf("%d writes", n)
		}
		for _, shard := range []string{"a", "b"} {
			for _, method := range []string{"CreateInstance", "DeleteInstance", "UpsertGroup"} {
				if n := w.Shard(shard).Count(method); n > 0 {
					t.Errorf("shard %s: %d calls of %s", shard, n, method)
				}
			}
		}
	})
}

// M3: whatever write fails or is not answered, the next look finishes the work, and nothing is made twice.
func TestM3_EveryWriteMayFail(t *testing.T) {
	down := errors.New("the API server is away")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "hostmachines"}, "x", errors.New("it has changed"))
	for _, failure := range []error{down, conflict} {
		for n := 1; n <= 12; n++ {
			for _, after := range []bool{false, true} {
				run(t, func(w *world) {
					w.faults.FailWrite(n, after, failure)
					for _, err := range w.look() {
						if !errors.Is(err, failure) && !apierrors.IsConflict(err) {
							t.Fatal(err)
						}
					}
					w.restart()
					w.settle()
					w.want("after the failure", slices.Concat(w.ids("a", "web"), w.ids("b", "web"))...)
					for name, m := range w.machines() {
						if m.Labels[hostsv1.LabelGroup] != "web" || meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionProvisioned) == nil {
							t.Errorf("%s is left half done: %+v", name, m)
						}
					}
				})
			}
		}
	}
}

// M7: the very HostMachine that was seen is deleted, and none that came later under the same name.
func TestM7_OnlyWhatWasSeenIsDeleted(t *testing.T) {
	run(t, func(w *world) {
		w.settle()
		id := w.ids("a", "web")[0]
		uid := w.machines()[id].UID
		var asked []types.UID
		w.r.opts.Client = interceptor.NewClient(w.api, interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if p := (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions; p != nil && p.UID != nil {
					asked = append(asked, *p.UID)
				}
				return c.Delete(ctx, o, opts...)
			},
		})
		w.Shard("a").Condemn(id, "expired", 0)
		w.Shard("a").Settle()
		w.After(time.Minute)
		w.settle()
		if uid == "" || !slices.Equal(asked, []types.UID{uid}) {
			t.Errorf("deleted with the preconditions %v, want %s", asked, uid)
		}
	})
}

// M3: what is known before the controller starts is looked at when it does, and what comes later as it comes.
func TestM3_InstancesThatWereThereBeforeAreLookedAt(t *testing.T) {
	run(t, func(w *world) {
		hub := inventory.NewHub()
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		ctx, stop := context.WithCancel(w.t.Context())
		defer func() {
			stop()
			synctest.Wait()
		}()
		if err := w.r.instances(hub).Start(ctx, queue); err != nil {
			t.Fatal(err)
		}
		asked := func() (ids []string) {
			for range queue.Len() {
				request, _ := queue.Get()
				queue.Done(request)
				ids = append(ids, request.Name)
			}
			slices.Sort(ids)
			return ids
		}
		all := slices.Concat(w.ids("a", "web"), w.ids("b", "web"))
		slices.Sort(all)
		if got := asked(); !slices.Equal(got, all) {
			t.Errorf("at its start it looks at %v, want %v", got, all)
		}
		hub.Changed("a", inventory.Change{Kind: inventory.InstanceGone, Instance: "gone"}, inventory.Change{Kind: inventory.GroupChanged, Group: "web"})
		w.After(time.Minute)
		want := append(w.ids("a", "web"), "gone")
		slices.Sort(want)
		if got := asked(); !slices.Equal(got, want) {
			t.Errorf("after changes it looks at %v, want %v", got, want)
		}
	})
}
