package machinepool

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/testworld"
)

// written is a pool of two shard groups of three instances in an API server, as they were read.
func written(t *testing.T, funcs interceptor.Funcs) (*Reconciler, state) {
	t.Helper()
	st := *settled(3, 3)
	st.pool.Namespace, st.pool.UID = "ns", "pool"
	b := testworld.NewClientBuilder(t)
	for name, shardGroup := range st.shardGroups {
		shardGroup.Namespace, shardGroup.Name, shardGroup.ResourceVersion = "ns", "web--"+name, ""
		b.WithObjects(shardGroup)
	}
	c := interceptor.NewClient(b.Build(), funcs)
	for name, shardGroup := range st.shardGroups {
		read := &infrav1.NstanceShardGroup{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(shardGroup), read); err != nil {
			t.Fatal(err)
		}
		st.shardGroups[name] = read
	}
	return &Reconciler{Client: c}, st
}

func resized(st state, shard string, size int32) write {
	w := write{shard: shard, spec: *st.shardGroups[shard].Spec.DeepCopy()}
	w.spec.Size = &size
	return w
}

func sizeOf(t *testing.T, r *Reconciler, name string) int32 {
	t.Helper()
	shardGroup := &infrav1.NstanceShardGroup{}
	if err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, shardGroup); err != nil {
		t.Fatal(err)
	}
	return shardGroup.Spec.SizeOrZero()
}

// A shard gives up an instance only when another one has been told to make it.
func TestO4_NothingShrinksIfWhatGrowsCannotBeWritten(t *testing.T) {
	r, st := written(t, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if o.GetName() == "web--a" {
				return errors.New("the API server is away")
			}
			return c.Patch(ctx, o, p, options...)
		},
	})
	if err := r.writeShardGroups(t.Context(), &st, plan{writes: []write{resized(st, "a", 4), resized(st, "b", 2)}}); err == nil {
		t.Error("the failure is no error")
	}
	if size := sizeOf(t, r, "web--b"); size != 3 {
		t.Errorf("the part that shrinks has size %d though the other one does not grow", size)
	}
}

// What has changed since it was read is not overwritten: a new plan is made of it.
func TestO6_APartThatHasChangedIsNotOverwritten(t *testing.T) {
	r, st := written(t, interceptor.Funcs{})
	changed := st.shardGroups["a"].DeepCopy()
	changed.Spec.Retiring = []string{"somebody"}
	if err := r.Client.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if err := r.writeShardGroups(t.Context(), &st, plan{writes: []write{resized(st, "a", 2)}}); !apierrors.IsConflict(err) {
		t.Errorf("%v, want a conflict", err)
	}
	if size := sizeOf(t, r, "web--a"); size != 3 {
		t.Errorf("the part has size %d", size)
	}
}

// A Machine is deleted as the one that was looked at, not as whichever has its name by then.
func TestO6_AMachineMadeAnewIsNotDeleted(t *testing.T) {
	var deleted []client.DeleteOptions
	r, st := written(t, interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
			var o client.DeleteOptions
			o.ApplyOptions(options)
			deleted = append(deleted, o)
			return nil
		},
	})
	st.machines = map[string]*clusterv1.Machine{"i1": {ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "i1", UID: "first"}}}
	if err := r.deleteMachine(t.Context(), st, "i1", ""); err != nil {
		t.Fatal(err)
	}
	if len(deleted) != 1 || deleted[0].Preconditions == nil || deleted[0].Preconditions.UID == nil || *deleted[0].Preconditions.UID != "first" {
		t.Errorf("%+v", deleted)
	}
}
