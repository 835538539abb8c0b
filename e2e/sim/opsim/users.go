package opsim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/testworld/apiserver"
	"nstance.dev/protos/identity"
)

// users are the people and programs that want something of pools.
type users struct {
	g *guest
	c client.Client

	turn turn // of who changes a pool: an autoscaler reads before it writes

	mu      sync.Mutex
	retried map[string]int // what users still retry, and how many of them
}

const user = "user" // who calls

func newUsers(g *guest) *users {
	return &users{g: g, c: g.api.Client(user), turn: newTurn(), retried: map[string]int{}}
}

// tries is how often somebody repeats what the API server did not take.
const tries = 60

// retry repeats a call of the API until it is taken or there is no sense in it, and notes
// what came of it.
func (u *users) retry(what string, do func(context.Context) (string, error)) {
	u.want(what, 1)
	defer u.want(what, -1)
	u.turn.take()
	defer u.turn.give()
	for n := range tries {
		came, err := do(u.g.Context())
		if err == nil && came != "" {
			u.g.Logf("%s", came)
		}
		if err == nil || apierrors.IsNotFound(err) {
			return
		}
		if wait(u.g.Context(), u.g.Between(time.Second, 30*time.Second, what, n)) != nil {
			return
		}
	}
}

func (u *users) want(what string, more int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.retried[what] += more; u.retried[what] == 0 {
		delete(u.retried, what)
	}
}

// pending names something that a user still retries; empty: nothing.
func (u *users) pending() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := slices.Sorted(maps.Keys(u.retried))
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// scale sets the replicas of a pool, and makes it if there is none.
func (u *users) scale(name string, size int) {
	replicas := int32(size)
	u.retry("scale "+name, func(ctx context.Context) (string, error) {
		if pool, there := apiserver.Get[*clusterv1.MachinePool](u.g.api, namespace, name); there {
			next := pool.DeepCopy()
			next.Spec.Replicas = &replicas
			return fmt.Sprintf("pool %s is to have size %d", name, size), u.c.Update(ctx, next)
		}
		if err := u.makeInfra(ctx, name); err != nil {
			return "", err
		}
		return fmt.Sprintf("pool %s is made with size %d", name, size), client.IgnoreAlreadyExists(u.c.Create(ctx, u.machinePool(name, replicas)))
	})
}

func (u *users) makeInfra(ctx context.Context, name string) error {
	return client.IgnoreAlreadyExists(u.c.Create(ctx, &infrav1.NstanceMachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: u.g.clusterName()}},
		Spec: infrav1.NstanceMachinePoolSpec{
			Group: name, Shards: []string{u.g.Shard()}, Template: name,
		},
	}))
}

func (u *users) machinePool(name string, replicas int32) *clusterv1.MachinePool {
	return &clusterv1.MachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: u.g.clusterName()}},
		Spec: clusterv1.MachinePoolSpec{
			ClusterName: u.g.clusterName(), Replicas: &replicas,
			Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
				ClusterName: u.g.clusterName(), Bootstrap: clusterv1.Bootstrap{DataSecretName: new("")},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: infrav1.KindMachinePool, Name: name},
			}},
		},
	}
}

// members are the Machines of a pool that are not being deleted, in the order in which
// their instances were made. That of their names is no order to mean one by: an id begins
// with the millisecond of its making, which a seed does not fix.
func (u *users) members(name string) []*clusterv1.Machine {
	all := slices.DeleteFunc(apiserver.All[*clusterv1.Machine](u.g.api), func(m *clusterv1.Machine) bool {
		owner := metav1.GetControllerOf(m)
		return !m.DeletionTimestamp.IsZero() || owner == nil || owner.Kind != "MachinePool" || owner.Name != name
	})
	slices.SortFunc(all, func(a, b *clusterv1.Machine) int {
		one, _ := u.g.Instance(identity.ID(a.Name)) // a Machine has the name of its instance
		two, _ := u.g.Instance(identity.ID(b.Name))
		return cmp.Or(one.Born.Compare(two.Born), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// shrink names a Machine and then lowers the size, as an autoscaler does.
func (u *users) shrink(name string, n int) {
	all := u.members(name)
	if len(all) == 0 {
		return
	}
	victim := all[n%len(all)].Name
	u.retry("mark "+victim, func(ctx context.Context) (string, error) {
		m, there := apiserver.Get[*clusterv1.Machine](u.g.api, namespace, victim)
		if !there {
			return "", nil
		}
		next := m.DeepCopy()
		next.Annotations = map[string]string{clusterv1.DeleteMachineAnnotation: "yes"}
		return "", u.c.Update(ctx, next)
	})
	u.retry("shrink "+name, func(ctx context.Context) (string, error) {
		pool, there := apiserver.Get[*clusterv1.MachinePool](u.g.api, namespace, name)
		if !there || pool.Spec.Replicas == nil || *pool.Spec.Replicas == 0 {
			return "", nil
		}
		next := pool.DeepCopy()
		next.Spec.Replicas = new(*pool.Spec.Replicas - 1)
		return fmt.Sprintf("pool %s is to have size %d without %s", name, *next.Spec.Replicas, victim), u.c.Update(ctx, next)
	})
}

// remove deletes a Machine.
func (u *users) remove(name string, n int) {
	all := u.members(name)
	if len(all) == 0 {
		return
	}
	m := all[n%len(all)]
	u.retry("remove "+m.Name, func(ctx context.Context) (string, error) {
		return fmt.Sprintf("machine %s is deleted by hand", m.Name), u.c.Delete(ctx, m.DeepCopy())
	})
}

// delete deletes a pool.
func (u *users) delete(name string) {
	if pool, there := apiserver.Get[*clusterv1.MachinePool](u.g.api, namespace, name); there {
		u.retry("delete "+name, func(ctx context.Context) (string, error) {
			return fmt.Sprintf("pool %s is deleted", name), u.c.Delete(ctx, pool.DeepCopy())
		})
	}
}

// wipe deletes every object of the operator and of Cluster API that is of a pool.
func (u *users) wipe() {
	u.g.Logf("all custom resources are deleted")
	u.g.checks.wiped()
	var all []client.Object
	add := func(o client.Object) { all = append(all, o) }
	apiserver.Each(u.g.api, func(o *infrav1.NstanceMachine) { add(o) })
	apiserver.Each(u.g.api, func(o *clusterv1.Machine) { add(o) })
	apiserver.Each(u.g.api, func(o *infrav1.NstanceShardGroup) { add(o) })
	apiserver.Each(u.g.api, func(o *infrav1.NstanceMachinePool) { add(o) })
	apiserver.Each(u.g.api, func(o *clusterv1.MachinePool) { add(o) })
	for _, o := range all {
		copied, ok := o.DeepCopyObject().(client.Object)
		if ok {
			u.retry("wipe", func(ctx context.Context) (string, error) { return "", u.c.Delete(ctx, copied) })
		}
	}
}
