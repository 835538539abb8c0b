package machinepool

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/status"
)

// publish writes what Cluster API reads of a pool: the list of provider ids first, then
// the status with its length. Cluster API does not take over a list whose length it is not
// told.
func (r *Reconciler) publish(ctx context.Context, st state, p plan) error {
	ids, err := r.currentIDs(ctx, &st)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := r.writeSpec(ctx, st.pool, ids); err != nil {
		return err
	}
	duplicateIDs, err := r.duplicateIDs(ctx, st, ids)
	if err != nil {
		return err
	}
	next := st.status(p, ids, duplicateIDs, r.Now())
	r.publishEvents(st.pool, next.Conditions)
	return r.writeStatus(ctx, st, next)
}

// currentIDs are the provider ids that the pool is to have. A Node goes with each that leaves
// the list, and the list is written as a whole: no cache that is behind may say what leaves it,
// neither that of the shard groups nor that of the pool.
func (r *Reconciler) currentIDs(ctx context.Context, st *state) ([]infrav1.ProviderID, error) {
	ids := st.providerIDs()
	if slices.Equal(ids, st.pool.Spec.ProviderIDList) {
		return ids, nil
	}
	now := &infrav1.NstanceMachinePool{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(st.pool), now); err != nil {
		return nil, fmt.Errorf("look at pool %s again: %w", st.pool.Name, err)
	}
	st.pool = now
	if !slices.ContainsFunc(now.Spec.ProviderIDList, func(id string) bool { return !slices.Contains(ids, id) }) {
		return ids, nil
	}
	if err := observeShardGroups(ctx, r.Live, st); err != nil {
		return nil, fmt.Errorf("look at the parts of pool %s again: %w", st.pool.Name, err)
	}
	return st.providerIDs(), nil
}

// publishPaused says that the pool is paused, and leaves everything else as it is.
func (r *Reconciler) publishPaused(ctx context.Context, st state) error {
	next := *st.pool.Status.DeepCopy()
	next.Conditions = status.With(next.Conditions, pausedCondition(st), st.pool.Generation, r.Now())
	return r.writeStatus(ctx, st, next)
}

// writeStatus stores a status, if it has changed.
func (r *Reconciler) writeStatus(ctx context.Context, st state, next infrav1.NstanceMachinePoolStatus) error {
	if equality.Semantic.DeepEqual(st.pool.Status, next) {
		return nil
	}
	object := &infrav1.NstanceMachinePool{ObjectMeta: st.pool.ObjectMeta, Status: next}
	if err := status.Apply(ctx, r.Client, object, manager); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of pool %s: %w", st.pool.Name, err)
	}
	return nil
}

// writeSpec writes the fields of the spec that are the operator's.
func (r *Reconciler) writeSpec(ctx context.Context, pool *infrav1.NstanceMachinePool, ids []infrav1.ProviderID) error {
	id := fmt.Sprintf("nstance://%s/%s/%s", r.Names.ClusterID, r.Names.Tenant, pool.Spec.Group)
	if pool.Spec.ProviderID == id && slices.Equal(pool.Spec.ProviderIDList, ids) {
		return nil
	}
	before := pool.DeepCopy()
	pool.Spec.ProviderID, pool.Spec.ProviderIDList = id, ids
	if err := r.Client.Patch(ctx, pool, client.MergeFrom(before), infra); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the provider ids of pool %s: %w", pool.Name, err)
	}
	return nil
}

// duplicateIDs are the provider ids of the pool that end like that of another instance, in any
// pool: an autoscaler that meets such a pair stops.
func (r *Reconciler) duplicateIDs(ctx context.Context, st state, ids []infrav1.ProviderID) ([]infrav1.ProviderID, error) {
	var list infrav1.NstanceShardGroupList
	if err := r.Client.List(ctx, &list, client.InNamespace(st.pool.Namespace), client.UnsafeDisableDeepCopy); err != nil { // only read
		return nil, fmt.Errorf("list all NstanceShardGroups: %w", err)
	}
	var all []string
	for i := range list.Items {
		all = append(all, list.Items[i].Status.ProviderIDs...)
	}
	return duplicates(ids, all), nil
}

// publishEvents makes the events of conditions that have become something that users have to know.
func (r *Reconciler) publishEvents(pool *infrav1.NstanceMachinePool, next []metav1.Condition) {
	for _, worth := range []struct {
		condition, reason, action string
		bad                       metav1.ConditionStatus
		kind                      string
	}{
		{infrav1.ConditionPoolConflict, "PoolConflict", "Scale", metav1.ConditionTrue, corev1.EventTypeWarning},
		{infrav1.ConditionDemandAllowed, "DemandNotAllowed", "Switch", metav1.ConditionFalse, corev1.EventTypeWarning},
		{infrav1.ConditionLimitReached, "LimitReached", "Scale", metav1.ConditionTrue, corev1.EventTypeNormal},
		{infrav1.ConditionSpecIgnored, "SpecIgnored", "Upsert", metav1.ConditionTrue, corev1.EventTypeWarning},
		{infrav1.ConditionProviderIDsUnique, "ProviderIDDuplicate", "List", metav1.ConditionFalse, corev1.EventTypeWarning},
		{infrav1.ConditionCapacityKnown, "CapacityUnknown", "Scale", metav1.ConditionFalse, corev1.EventTypeWarning},
		{infrav1.ConditionZonalAutoscaling, "ZonalAutoscaling", "Scale", metav1.ConditionFalse, corev1.EventTypeNormal},
	} {
		is := meta.FindStatusCondition(next, worth.condition)
		was := meta.FindStatusCondition(pool.Status.Conditions, worth.condition)
		if is != nil && is.Status == worth.bad && (was == nil || was.Status != worth.bad) {
			r.Events.Eventf(pool, nil, worth.kind, worth.reason, worth.action, "%s", is.Message)
		}
	}
}
