package machinepool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/controllers/machinepool/planner"
	"nstance.dev/operator/unsent"
)

// act carries a plan out, and says when to look again. What it has written stands in the
// state afterwards.
func (r *Reconciler) act(ctx context.Context, st *state, p plan) (time.Duration, error) {
	if st.paused {
		return 0, nil
	}
	again, err := r.makeMachinePool(ctx, st)
	if err != nil {
		return 0, err
	}
	removal, err := machinePoolRemoval{r, st}.carryOn(ctx)
	if err != nil {
		return 0, err
	}
	again = sooner(again, removal)
	if err := joinCluster(ctx, r, st); err != nil {
		return 0, err
	}
	if err := r.describeMachinePool(ctx, st); err != nil {
		return 0, err
	}
	if err := r.remember(ctx, st.pool, p); err != nil {
		return 0, err
	}
	logPlan(ctx, *st, p)
	if err := r.writeShardGroups(ctx, st, p); err != nil {
		return 0, err
	}
	r.report(*st, p)
	for _, e := range p.ends {
		r.Events.Eventf(st.pool, st.shardGroups[e.shard], corev1.EventTypeNormal, "ShardRetired", "Scale", "%s", e.why)
		if err := r.endShardGroup(ctx, st.shardGroups[e.shard]); err != nil {
			return 0, err
		}
		ctrl.LoggerFrom(ctx).Info("removed shard from the pool", "group", st.pool.Spec.Group, "shard", e.shard, "reason", e.why)
	}
	return again, r.deleteRetired(ctx, *st)
}

// remember writes what the next passes have to know into annotations of the pool, and the settings of a group
// that is not static any more.
func (r *Reconciler) remember(ctx context.Context, pool *infrav1.NstanceMachinePool, p plan) error {
	before := pool.DeepCopy()
	for key, value := range p.annotations {
		if value == "" {
			delete(pool.Annotations, key)
			continue
		}
		metav1.SetMetaDataAnnotation(&pool.ObjectMeta, key, value)
	}
	if p.takeover != nil {
		pool.Spec.Template, pool.Spec.Subnets, pool.Spec.LoadBalancers = p.takeover.template, p.takeover.subnets, p.takeover.loadBalancers
	}
	if maps.Equal(before.Annotations, pool.Annotations) && p.takeover == nil {
		return nil
	}
	if err := r.Client.Patch(ctx, pool, client.MergeFrom(before), infra); err != nil {
		return fmt.Errorf("patch NstanceMachinePool %s: %w", pool.Name, err)
	}
	if p.takeover != nil {
		text := "no field of the spec changes"
		if len(p.takeover.fields) > 0 {
			text = "the spec takes over what the servers use: " + strings.Join(p.takeover.fields, ", ")
		}
		r.Events.Eventf(pool, nil, corev1.EventTypeNormal, "StaticReleased", "Release",
			"group %s became dynamic: no server's configuration has it; %s", pool.Spec.Group, text)
	}
	return nil
}

// writeShardGroups writes the shard groups of a plan: all those at once that become greater,
// and after them the others.
func (r *Reconciler) writeShardGroups(ctx context.Context, st *state, p plan) error {
	writes, was := p.writes, maps.Clone(st.shardGroups)
	defer func() {
		for _, w := range writes {
			logResized(ctx, was[w.shard], st.shardGroups[w.shard], p.sizes.Reason+p.division)
		}
	}()
	smaller := slices.IndexFunc(writes, func(w write) bool { return !w.grows(st.shardGroups[w.shard]) })
	if smaller < 0 {
		smaller = len(writes)
	}
	if err := r.writeTogether(ctx, st, writes[:smaller]); err != nil {
		return err
	}
	return r.writeTogether(ctx, st, writes[smaller:])
}

// logPlan logs what is to become of the sizes, before any is written.
func logPlan(ctx context.Context, st state, p plan) {
	if len(p.writes) > 0 && p.division != "" {
		ctrl.LoggerFrom(ctx).Info("dividing demand pool", "group", st.pool.Spec.Group, "generation", st.pool.Generation, "reason", p.division)
	}
	if len(p.writes) == 0 || st.machinePool == nil || p.sizes.Reason == "" {
		return
	}
	ctrl.LoggerFrom(ctx).Info("scaling pool", "group", st.pool.Spec.Group, "machine_pool", st.machinePool.Name,
		"generation", st.machinePool.Generation, "replicas", ptr.Deref(st.machinePool.Spec.Replicas, 0), "reason", p.sizes.Reason)
}

// logResized logs that a shard group has become greater or smaller.
func logResized(ctx context.Context, was, is *infrav1.NstanceShardGroup, why string) {
	var size int32
	if was != nil {
		size = was.Spec.SizeOrZero()
	}
	switch {
	case is == nil || is == was:
	case is.Spec.Size == nil:
		ctrl.LoggerFrom(ctx).Info("updated group", "group", is.Spec.Group, "shard", is.Spec.Shard, "demand", is.Spec.Demand != nil, "was_size", size,
			"generation", is.Generation, "reason", why)
	case is.Spec.SizeOrZero() == size:
		ctrl.LoggerFrom(ctx).Info("updated group", "group", is.Spec.Group, "shard", is.Spec.Shard, "size", size,
			"retiring", len(is.Spec.Retiring), "generation", is.Generation, "reason", "its settings or its retiring instances have changed")
	default:
		ctrl.LoggerFrom(ctx).Info("resized group", "group", is.Spec.Group, "shard", is.Spec.Shard, "size", is.Spec.SizeOrZero(), "was", size,
			"generation", is.Generation, "reason", why)
	}
}

func (r *Reconciler) writeTogether(ctx context.Context, st *state, writes []write) error {
	shardGroups := make([]*infrav1.NstanceShardGroup, len(writes))
	errs := make([]error, len(writes))
	var all sync.WaitGroup
	for i, w := range writes {
		all.Go(func() { shardGroups[i], errs[i] = r.write(ctx, *st, w) })
	}
	all.Wait()
	for i, w := range writes {
		if errs[i] == nil {
			st.shardGroups[w.shard] = shardGroups[i]
		}
	}
	return errors.Join(errs...)
}

// write creates or patches the shard group of one shard, in one patch against what was read,
// and returns it.
func (r *Reconciler) write(ctx context.Context, st state, w write) (*infrav1.NstanceShardGroup, error) {
	shardGroup := st.shardGroups[w.shard].DeepCopy()
	if w.create {
		shardGroup = &infrav1.NstanceShardGroup{ObjectMeta: metav1.ObjectMeta{
			Namespace: st.pool.Namespace, Name: capi.ShardGroup(w.spec.Group, w.shard),
		}}
	}
	before := shardGroup.DeepCopy()
	shardGroup.Spec = w.spec
	capi.Annotate(shardGroup, infrav1.AnnotationSurge, w.surge)
	capi.Annotate(shardGroup, infrav1.AnnotationRetireAfter, w.retireAfter)
	for label, value := range capi.ShardGroupLabels(st.pool, w.shard, clusterName(st, r.Names.Cluster)) {
		metav1.SetMetaDataLabel(&shardGroup.ObjectMeta, label, value)
	}
	if err := controllerutil.SetControllerReference(st.pool, shardGroup, r.Client.Scheme()); err != nil {
		return nil, fmt.Errorf("own NstanceShardGroup %s: %w", shardGroup.Name, err)
	}
	name := client.ObjectKeyFromObject(shardGroup)
	r.Traces.Wrote(ctx, name) // first: its controller is quick
	if !equality.Semantic.DeepEqual(before.Spec, shardGroup.Spec) {
		r.Unsent.Add(unsent.ShardGroup(name), before.Generation+1)
	}
	var err error
	if w.create {
		err = r.Client.Create(ctx, shardGroup, infra)
	} else {
		err = r.Client.Patch(ctx, shardGroup, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), infra)
	}
	if err != nil {
		r.Unsent.Done(unsent.ShardGroup(name), before.Generation+1)
		return nil, fmt.Errorf("write NstanceShardGroup %s: %w", shardGroup.Name, err)
	}
	for _, v := range w.victims {
		ctrl.LoggerFrom(ctx).Info("selected instance for deletion", "instance", v.ID, "shard", w.shard, "reason", v.Why)
		if machine := st.machines[v.ID]; machine != nil {
			r.Events.Eventf(machine, st.pool, corev1.EventTypeNormal, "VictimSelected", "Scale", "%s", v.Why)
		}
	}
	return shardGroup, nil
}

// endShardGroup deletes a shard group, and annotates it first as deleted by the pool, not by a user.
func (r *Reconciler) endShardGroup(ctx context.Context, shardGroup *infrav1.NstanceShardGroup) error {
	if shardGroup.Annotations[infrav1.AnnotationRetiredByPool] != "true" {
		before := shardGroup.DeepCopy()
		capi.Annotate(shardGroup, infrav1.AnnotationRetiredByPool, "true")
		if err := r.Client.Patch(ctx, shardGroup, client.MergeFrom(before), infra); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if !shardGroup.DeletionTimestamp.IsZero() {
		return nil
	}
	r.Traces.Wrote(ctx, client.ObjectKeyFromObject(shardGroup))
	if err := r.Client.Delete(ctx, shardGroup, client.Preconditions{UID: &shardGroup.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete NstanceShardGroup %s: %w", shardGroup.Name, err)
	}
	return nil
}

// deleteRetired deletes the Machines of instances that are retiring, of those that their health
// checks have given up, and those that nothing stands behind. An instance that has no
// Machine yet loses its NstanceMachine instead.
func (r *Reconciler) deleteRetired(ctx context.Context, st state) error {
	if !st.asMachines {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(st.shardGroups)) {
		for _, id := range st.shardGroups[name].Spec.Retiring {
			if st.shards[name].gone[id] {
				continue
			}
			if err := r.deleteMachine(ctx, st, id, "its instance retires from shard "+name); err != nil {
				return err
			}
		}
	}
	for _, v := range remediated(st) {
		r.Events.Eventf(st.machines[v.ID], st.pool, corev1.EventTypeNormal, "VictimSelected", "Remediate", "%s", v.Why)
		if err := r.deleteMachine(ctx, st, v.ID, v.Why); err != nil {
			return err
		}
	}
	for _, id := range st.staleMachines {
		if err := r.deleteStaleMachine(ctx, st, id); err != nil {
			return err
		}
	}
	return nil
}

// deleteStaleMachine deletes a Machine without an instance. Cluster API is not to wait for Pods or
// volumes of a machine that is not there.
func (r *Reconciler) deleteStaleMachine(ctx context.Context, st state, id string) error {
	before := st.machines[id].DeepCopy()
	capi.Annotate(st.machines[id], clusterv1.ExcludeNodeDrainingAnnotation, "true")
	capi.Annotate(st.machines[id], clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation, "true")
	if err := r.Client.Patch(ctx, st.machines[id], client.MergeFrom(before), infra); err != nil {
		return client.IgnoreNotFound(err)
	}
	return r.deleteMachine(ctx, st, id, "its instance is gone")
}

func (r *Reconciler) deleteMachine(ctx context.Context, st state, id, why string) error {
	var object client.Object
	switch machine, infraMachine := st.machines[id], st.infraMachines[id]; {
	case machine != nil:
		object = machine
	case infraMachine != nil:
		object = infraMachine
	default:
		return nil // it is made first, see infraMachine
	}
	if !object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	uid := object.GetUID()
	if err := r.Client.Delete(ctx, object, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %T %s: %w", object, id, err)
	}
	ctrl.LoggerFrom(ctx).Info("deleted Machine", "group", st.pool.Spec.Group, "instance", id, "reason", why)
	return nil
}

// createInfraMachines makes the NstanceMachines that are missing.
func (r *Reconciler) createInfraMachines(ctx context.Context, st state) (more bool, err error) {
	missing, more := st.missingInfraMachines()
	for _, infraMachine := range missing {
		switch err := r.Client.Create(ctx, infraMachine, infra); {
		case apierrors.IsAlreadyExists(err): // the cache is behind
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("make NstanceMachine %s: %w", infraMachine.Name, err)
		default:
			ctrl.LoggerFrom(ctx).Info("created NstanceMachine", "group", st.pool.Spec.Group, "shard", infraMachine.Spec.Shard, "instance", infraMachine.Name,
				"providerID", infraMachine.Spec.ProviderID)
		}
	}
	return more, nil
}

// report tells users what a plan does.
func (r *Reconciler) report(st state, p plan) {
	publish := func(kind, reason, action, text string) {
		r.Events.Eventf(st.pool, nil, kind, reason, action, "%s", text)
	}
	if len(p.sizes.Writes()) > 0 {
		publish(corev1.EventTypeNormal, "ScaledShards", "Scale", p.sizes.Reason)
	}
	if len(p.writes) > 0 && p.division != "" {
		publish(corev1.EventTypeNormal, "DemandDivided", "Scale", p.division)
	}
	if len(p.sizes.Redirected) > 0 && len(p.sizes.Writes()) > 0 {
		publish(corev1.EventTypeWarning, "GrowthRedirected", "Scale", p.sizes.Reason)
	}
	for _, l := range p.lowered {
		publish(corev1.EventTypeWarning, "GrowthRedirected", "Scale", l.Reason)
	}
	if r.Redirected != nil {
		for name, why := range st.redirected(p, r.Now()) {
			r.Redirected(st.pool.Spec.Group, name, why)
		}
	}
	switch p.move.Kind {
	case planner.Open:
		publish(corev1.EventTypeNormal, "RebalanceStarted", "Rebalance", p.move.Reason)
	case planner.Close:
		publish(corev1.EventTypeNormal, "RebalanceDone", "Rebalance", p.move.Reason)
	case planner.Abandon:
		publish(corev1.EventTypeWarning, "RebalanceStalled", "Rebalance", p.move.Reason)
	}
	before, now := userRemovedShards(st.pool), st.currentUserRemovedShards(r.Now())
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, known := before[name]; !known {
			publish(corev1.EventTypeWarning, "ShardGroupRemoved", "Scale", fmt.Sprintf(
				"the NstanceShardGroup on shard %s was deleted by a user; the pool leaves the shard out for %v, or until it no longer lists the shard", name, removedShardTTL))
		}
	}
}

// sooner is the shorter of two waits, where zero is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
