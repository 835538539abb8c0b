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
)

const infra = client.FieldOwner(infrav1.FieldManager)

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
	if err := r.describeMachinePool(ctx, st); err != nil {
		return 0, err
	}
	if err := r.remember(ctx, st.pool, p); err != nil {
		return 0, err
	}
	logPlan(ctx, *st, p)
	if err := r.writeParts(ctx, st, p); err != nil {
		return 0, err
	}
	r.report(*st, p)
	for _, e := range p.ends {
		r.Events.Eventf(st.pool, st.parts[e.shard], corev1.EventTypeNormal, "ShardRetired", "Scale", "%s", e.why)
		if err := r.endPart(ctx, st.parts[e.shard]); err != nil {
			return 0, err
		}
		ctrl.LoggerFrom(ctx).Info("retired shard", "group", st.pool.Spec.Group, "shard", e.shard, "reason", e.why)
	}
	if err := r.letGo(ctx, *st); err != nil {
		return 0, err
	}
	more, err := r.mirror(ctx, *st)
	if more {
		again = sooner(again, time.Second)
	}
	return again, err
}

// remember writes the memory of the pool, and the settings of a group that is not static
// any more.
func (r *Reconciler) remember(ctx context.Context, pool *infrav1.NstanceMachinePool, p plan) error {
	before := pool.DeepCopy()
	for key, value := range p.memory {
		if value == "" {
			delete(pool.Annotations, key)
			continue
		}
		metav1.SetMetaDataAnnotation(&pool.ObjectMeta, key, value)
	}
	if p.release != nil {
		pool.Spec.Template, pool.Spec.Subnets, pool.Spec.LoadBalancers = p.release.template, p.release.subnets, p.release.loadBalancers
	}
	if maps.Equal(before.Annotations, pool.Annotations) && p.release == nil {
		return nil
	}
	if err := r.Client.Patch(ctx, pool, client.MergeFrom(before), infra); err != nil {
		return fmt.Errorf("write the memory of pool %s: %w", pool.Name, err)
	}
	if p.release != nil {
		text := "no field of the spec changes"
		if len(p.release.fields) > 0 {
			text = "the spec takes over what the servers use: " + strings.Join(p.release.fields, ", ")
		}
		r.Events.Eventf(pool, nil, corev1.EventTypeNormal, "StaticReleased", "Release",
			"no server's configuration has group %s any more; %s", pool.Spec.Group, text)
	}
	return nil
}

// writeParts makes the parts what a plan has them be: all those at once that become greater,
// and after them the others.
func (r *Reconciler) writeParts(ctx context.Context, st *state, p plan) error {
	writes, was := p.writes, maps.Clone(st.parts)
	defer func() {
		for _, w := range writes {
			logResized(ctx, was[w.shard], st.parts[w.shard], p.sizes.Reason)
		}
	}()
	smaller := slices.IndexFunc(writes, func(w write) bool { return !w.grows(st.parts[w.shard]) })
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
	if len(p.writes) == 0 || st.machinePool == nil || p.sizes.Reason == "" {
		return
	}
	ctrl.LoggerFrom(ctx).Info("scaling pool", "group", st.pool.Spec.Group, "machinePool", st.machinePool.Name,
		"generation", st.machinePool.Generation, "replicas", ptr.Deref(st.machinePool.Spec.Replicas, 0), "reason", p.sizes.Reason)
}

// logResized logs that a part has become greater or smaller.
func logResized(ctx context.Context, was, is *infrav1.NstanceShardGroup, why string) {
	var size int32
	if was != nil {
		size = was.Spec.Size
	}
	switch {
	case is == nil || is == was:
	case is.Spec.Size == size:
		ctrl.LoggerFrom(ctx).Info("updated group", "group", is.Spec.Group, "shard", is.Spec.Shard, "size", size,
			"retiring", len(is.Spec.Retiring), "generation", is.Generation, "reason", "its settings or its retiring instances have changed")
	default:
		ctrl.LoggerFrom(ctx).Info("resized group", "group", is.Spec.Group, "shard", is.Spec.Shard, "size", is.Spec.Size, "was", size,
			"generation", is.Generation, "reason", why)
	}
}

func (r *Reconciler) writeTogether(ctx context.Context, st *state, writes []write) error {
	parts := make([]*infrav1.NstanceShardGroup, len(writes))
	errs := make([]error, len(writes))
	var all sync.WaitGroup
	for i, w := range writes {
		all.Go(func() { parts[i], errs[i] = r.write(ctx, *st, w) })
	}
	all.Wait()
	for i, w := range writes {
		if errs[i] == nil {
			st.parts[w.shard] = parts[i]
		}
	}
	return errors.Join(errs...)
}

// write makes the part of one shard what it is to be, in one patch against what was read,
// and returns it.
func (r *Reconciler) write(ctx context.Context, st state, w write) (*infrav1.NstanceShardGroup, error) {
	part := st.parts[w.shard].DeepCopy()
	if w.create {
		part = &infrav1.NstanceShardGroup{ObjectMeta: metav1.ObjectMeta{
			Namespace: st.pool.Namespace, Name: capi.ShardGroup(w.spec.Group, w.shard),
		}}
	}
	before := part.DeepCopy()
	part.Spec = w.spec
	capi.Annotate(part, infrav1.AnnotationSurge, w.surge)
	capi.Annotate(part, infrav1.AnnotationRetireAfter, w.retireAfter)
	part.Labels = merged(part.Labels, capi.ShardGroupLabels(st.pool, w.shard, st.machinePool.Spec.ClusterName))
	if err := controllerutil.SetControllerReference(st.pool, part, r.Client.Scheme()); err != nil {
		return nil, fmt.Errorf("own NstanceShardGroup %s: %w", part.Name, err)
	}
	var err error
	if w.create {
		err = r.Client.Create(ctx, part, infra)
	} else {
		err = r.Client.Patch(ctx, part, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), infra)
	}
	if err != nil {
		return nil, fmt.Errorf("write NstanceShardGroup %s: %w", part.Name, err)
	}
	for _, v := range w.victims {
		ctrl.LoggerFrom(ctx).Info("selected instance for deletion", "instance", v.ID, "shard", w.shard, "reason", v.Why)
		if machine := st.machines[v.ID]; machine != nil {
			r.Events.Eventf(machine, st.pool, corev1.EventTypeNormal, "VictimSelected", "Scale", "%s", v.Why)
		}
	}
	return part, nil
}

func merged(labels, more map[string]string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, more)
	return labels
}

// endPart deletes a part, and says first that the pool does it and not a person.
func (r *Reconciler) endPart(ctx context.Context, part *infrav1.NstanceShardGroup) error {
	if part.Annotations[infrav1.AnnotationRetiredByPool] != "true" {
		before := part.DeepCopy()
		capi.Annotate(part, infrav1.AnnotationRetiredByPool, "true")
		if err := r.Client.Patch(ctx, part, client.MergeFrom(before), infra); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if !part.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := r.Client.Delete(ctx, part, client.Preconditions{UID: &part.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete NstanceShardGroup %s: %w", part.Name, err)
	}
	return nil
}

// letGo deletes the Machines of instances that are retiring, of those that their health
// checks have given up, and those that nothing stands behind. An instance that has no
// Machine yet loses its NstanceMachine instead.
func (r *Reconciler) letGo(ctx context.Context, st state) error {
	if !st.asMachines {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(st.parts)) {
		for _, id := range st.parts[name].Spec.Retiring {
			if st.shards[name].gone[id] {
				continue
			}
			if err := r.deleteMachine(ctx, st, id, "its instance retires from shard "+name); err != nil {
				return err
			}
		}
	}
	for _, v := range planner.Remediate(st.patients()) {
		r.Events.Eventf(st.machines[v.ID], st.pool, corev1.EventTypeNormal, "VictimSelected", "Remediate", "%s", v.Why)
		if err := r.deleteMachine(ctx, st, v.ID, v.Why); err != nil {
			return err
		}
	}
	for _, id := range st.hollow {
		if err := r.clear(ctx, st, id); err != nil {
			return err
		}
	}
	return nil
}

// clear deletes a Machine that nothing stands behind. Cluster API is not to wait for Pods or
// volumes of a machine that is not there.
func (r *Reconciler) clear(ctx context.Context, st state, id string) error {
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
	switch machine, mirror := st.machines[id], st.mirrors[id]; {
	case machine != nil:
		object = machine
	case mirror != nil:
		object = mirror
	default:
		return nil // it is made first, see mirror
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

// mirror makes the NstanceMachines that are missing.
func (r *Reconciler) mirror(ctx context.Context, st state) (more bool, err error) {
	missing, more := st.unmirrored()
	for _, mirror := range missing {
		switch err := r.Client.Create(ctx, mirror, infra); {
		case apierrors.IsAlreadyExists(err): // the cache is behind
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("make NstanceMachine %s: %w", mirror.Name, err)
		default:
			ctrl.LoggerFrom(ctx).Info("created NstanceMachine", "group", st.pool.Spec.Group, "shard", mirror.Spec.Shard, "instance", mirror.Name,
				"providerID", mirror.Spec.ProviderID)
		}
	}
	return more, nil
}

// report tells people what a plan does.
func (r *Reconciler) report(st state, p plan) {
	tell := func(kind, reason, action, text string) {
		r.Events.Eventf(st.pool, nil, kind, reason, action, "%s", text)
	}
	if len(p.sizes.Writes()) > 0 {
		tell(corev1.EventTypeNormal, "ScaledShards", "Scale", p.sizes.Reason)
	}
	if len(p.sizes.Redirected) > 0 && len(p.sizes.Writes()) > 0 {
		tell(corev1.EventTypeWarning, "GrowthRedirected", "Scale", p.sizes.Reason)
	}
	for _, l := range p.lowered {
		tell(corev1.EventTypeWarning, "GrowthRedirected", "Scale", l.Reason)
	}
	if r.Redirected != nil {
		for name, why := range st.redirected(p, r.Now()) {
			r.Redirected(st.pool.Spec.Group, name, why)
		}
	}
	switch p.move.Kind {
	case planner.Open:
		tell(corev1.EventTypeNormal, "RebalanceStarted", "Rebalance", p.move.Reason)
	case planner.Close:
		tell(corev1.EventTypeNormal, "RebalanceDone", "Rebalance", p.move.Reason)
	case planner.Abandon:
		tell(corev1.EventTypeWarning, "RebalanceStalled", "Rebalance", p.move.Reason)
	}
	before, now := removals(st.pool), st.remembered(r.Now())
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, known := before[name]; !known {
			tell(corev1.EventTypeWarning, "ShardGroupRemoved", "Scale", fmt.Sprintf(
				"a person deleted the part of the pool on shard %s; the pool does without it for %v, or until it does not list the shard any more", name, removal))
		}
	}
}
