package machine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// act carries one action out, and reports whether a decision follows at once.
func (r *Reconciler) act(ctx context.Context, o Observation, action Action) (again bool, err error) {
	m := o.Machine
	switch a := action.(type) {
	case AddFinalizer:
		return false, r.patch(ctx, m, func(m *infrav1.NstanceMachine) { controllerutil.AddFinalizer(m, infrav1.FinalizerMachine) })
	case RemoveFinalizer:
		r.memory.forget(m.UID)
		return false, r.patch(ctx, m, func(m *infrav1.NstanceMachine) { controllerutil.RemoveFinalizer(m, infrav1.FinalizerMachine) })
	case SetProviderID:
		err := r.patch(ctx, m, func(m *infrav1.NstanceMachine) { m.Spec.ProviderID = a.ProviderID })
		if err == nil {
			log.FromContext(ctx).Info("set provider id", "instance", m.Spec.InstanceID, "shard", m.Spec.Shard, "providerID", a.ProviderID,
				"generation", m.Generation, "reason", "the shard says what its provider calls the machine")
		}
		return false, err
	case Choose:
		return false, r.choose(ctx, m, a)
	case Create:
		return true, r.create(ctx, m, a)
	case GetStatus:
		return false, r.ask(ctx, m) // an answer that says something is news
	case Delete:
		if o.mass(a.Decrement) && !r.take(m) {
			return true, nil // others were faster; the next decision waits
		}
		return true, r.delete(ctx, m, a)
	case DeleteMachine:
		return false, r.deleteMachine(ctx, m, o.Owner, o.WhyDeleted)
	case DeleteSelf:
		return false, r.Client.Delete(ctx, m, client.Preconditions{UID: &m.UID})
	case PublishEvent:
		r.publishEvent(m, a)
		return false, nil
	default:
		panic(fmt.Sprintf("machine: no way to carry out %T", action))
	}
}

// patch changes the machine as it was read: if it has changed since, the change is refused
// and a new decision follows.
func (r *Reconciler) patch(ctx context.Context, m *infrav1.NstanceMachine, change func(*infrav1.NstanceMachine)) error {
	next := m.DeepCopy()
	change(next)
	return r.Client.Patch(ctx, next, client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{}), client.FieldOwner(infrav1.FieldManager))
}

func (r *Reconciler) choose(ctx context.Context, m *infrav1.NstanceMachine, a Choose) error {
	id, err := r.NewID(a.Kind)
	if err != nil {
		return fmt.Errorf("an id of kind %q for an instance of group %s: %w", a.Kind, m.Spec.GroupRef.Name, err)
	}
	return r.patch(ctx, m, func(m *infrav1.NstanceMachine) {
		m.Spec.Shard, m.Spec.InstanceID = a.Shard, id.String()
		if a.Tried != nil {
			m.Annotations = maps.Clone(m.Annotations)
			if m.Annotations == nil {
				m.Annotations = map[string]string{}
			}
			m.Annotations[infrav1.AnnotationTriedShards] = strings.Join(a.Tried, ",")
		}
	})
}

// server returns the shard of the machine.
func (r *Reconciler) server(m *infrav1.NstanceMachine) (Server, error) {
	for _, named := range r.Shards() {
		if named.Name == m.Spec.Shard && named.Server != nil {
			return named.Server, nil
		}
	}
	return nil, fmt.Errorf("shard %s is not connected", m.Spec.Shard)
}

// create asks for the instance. What comes of it is noted, and a failure is no error: the
// next decision is made knowing it.
func (r *Reconciler) create(ctx context.Context, m *infrav1.NstanceMachine, a Create) error {
	server, err := r.server(m)
	if err != nil {
		return err
	}
	answer, err := server.CreateInstance(ctx, request(m))
	now := r.Now()
	if err != nil {
		r.memory.note(m.UID, m.Spec.InstanceID, func(t *Tried) { t.failed(err, a.About, now) })
		log.FromContext(ctx).Info("creation failed", "instance", m.Spec.InstanceID, "shard", m.Spec.Shard, "group", m.Spec.GroupRef.Name, "error", err.Error())
		return nil //nolint:nilerr // the next decision is made of it
	}
	log.FromContext(ctx).Info("created instance", "instance", m.Spec.InstanceID, "shard", m.Spec.Shard, "group", m.Spec.GroupRef.Name, "status", answer.GetStatus(),
		"generation", m.Generation, "reason", "the machine has no instance yet")
	ended := answer.GetStatus() == inventory.StatusTerminated // an earlier call made it, and it is gone by now
	r.memory.note(m.UID, m.Spec.InstanceID, func(t *Tried) { *t = Tried{Instance: t.Instance, CreateAt: now, Ended: ended} })
	if ended {
		r.happened(m, "deleted")
		return nil
	}
	r.happened(m, "created")
	r.publishEvent(m, PublishEvent{Reason: "InstanceCreated", Message: fmt.Sprintf("shard %s makes instance %s of group %s: %s",
		m.Spec.Shard, m.Spec.InstanceID, m.Spec.GroupRef.Name, answer.GetStatus())})
	return nil
}

// happened takes what an answer says of an instance into the inventory, before the stream
// brings it.
func (r *Reconciler) happened(m *infrav1.NstanceMachine, what string) {
	r.Inventory.Update(m.Spec.Shard, func(s *inventory.Shard) []inventory.Change {
		return s.InstanceEvent(&nstancev1.InstanceEvent{InstanceId: m.Spec.InstanceID, Group: m.Spec.GroupRef.Name, Status: what}, r.Now())
	})
}

// request is what a spec asks for.
func request(m *infrav1.NstanceMachine) *nstancev1.CreateInstanceRequest {
	optional := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	config := &nstancev1.InstanceConfig{
		Group: m.Spec.GroupRef.Name, Template: optional(m.Spec.Template), InstanceType: optional(m.Spec.InstanceType), SubnetPool: optional(m.Spec.Subnets),
	}
	if len(m.Spec.Vars) > 0 {
		config.Vars = &nstancev1.StringMap{Values: m.Spec.Vars}
	}
	if len(m.Spec.LoadBalancers) > 0 {
		config.LoadBalancers = &nstancev1.StringList{Values: m.Spec.LoadBalancers}
	}
	return &nstancev1.CreateInstanceRequest{InstanceId: &m.Spec.InstanceID, Config: config}
}

// ask takes the details of an instance into the inventory.
func (r *Reconciler) ask(ctx context.Context, m *infrav1.NstanceMachine) error {
	server, err := r.server(m)
	if err != nil {
		return err
	}
	asked := r.Now()
	said, err := server.GetInstanceStatus(ctx, m.Spec.InstanceID)
	switch {
	case err == nil && said.GetStatus() == inventory.StatusTerminated:
		r.happened(m, "deleted")
		return nil
	case err == nil:
	case shards.ClassOf(err) == shards.NotFound:
		return nil // a listing says whether it is gone
	default:
		r.memory.note(m.UID, m.Spec.InstanceID, func(t *Tried) { t.AskFailures, t.AskedAt = t.AskFailures+1, r.Now() })
		return nil // asked again after a pause that grows
	}
	r.memory.note(m.UID, m.Spec.InstanceID, func(t *Tried) { t.AskFailures = 0 })
	r.Inventory.Update(m.Spec.Shard, func(s *inventory.Shard) []inventory.Change {
		return s.ListedInstances(inventory.InstanceList{Instances: []*nstancev1.InstanceStatus{said}, Asked: asked}, r.Now())
	})
	return nil
}

// delete asks for the end of an instance. What its pool wants with it is read once more from
// the API server itself: an instance that was to make its group smaller would be replaced
// for good, and one that was to stay would be gone.
func (r *Reconciler) delete(ctx context.Context, m *infrav1.NstanceMachine, a Delete) error {
	server, err := r.server(m)
	if err != nil {
		return err
	}
	if m.Spec.Mode == infrav1.MachineManaged {
		now := &Observation{Machine: m}
		if err := errors.Join(observeShardGroup(ctx, r.Live, now), observeEnd(ctx, r.Live, now)); err != nil || now.Orphaned {
			return err
		}
		a.Decrement = a.Decrement || now.Retiring
	}
	answer, err := server.DeleteInstance(ctx, m.Spec.GroupRef.Name, &nstancev1.DeleteInstanceRequest{
		InstanceId: m.Spec.InstanceID, DecrementSize: a.Decrement, SkipDrain: true,
	})
	if err != nil && shards.ClassOf(err) != shards.NotFound {
		r.memory.note(m.UID, m.Spec.InstanceID, func(t *Tried) { t.refuse(err, r.Now()) })
		log.FromContext(ctx).Info("deletion failed", "instance", m.Spec.InstanceID, "shard", m.Spec.Shard, "error", err.Error())
		return nil // the next decision is made of it
	}
	log.FromContext(ctx).Info("deleted instance", "instance", m.Spec.InstanceID, "shard", m.Spec.Shard, "group", m.Spec.GroupRef.Name,
		"decrement", a.Decrement, "known", err == nil && answer.GetStatus() != "unknown",
		"generation", m.Generation, "reason", whyDelete(m))
	r.memory.note(m.UID, m.Spec.InstanceID, func(t *Tried) {
		t.DeleteFailures = 0
		t.DeleteAt, t.Decremented = r.Now(), t.Decremented || a.Decrement
		t.Unknown = err != nil || answer.GetStatus() == "unknown"
	})
	return nil
}

// whyDelete is why an instance is given up.
func whyDelete(m *infrav1.NstanceMachine) string {
	if m.DeletionTimestamp.IsZero() {
		return "its provider has no room for it, and another shard is tried"
	}
	return "its machine is being deleted"
}

// deleteMachine deletes the Machine of an instance that is gone. Cluster API is not to wait
// for Pods or volumes of a machine that is not there.
func (r *Reconciler) deleteMachine(ctx context.Context, m *infrav1.NstanceMachine, owner *clusterv1.Machine, why string) error {
	next := owner.DeepCopy()
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Annotations[clusterv1.ExcludeNodeDrainingAnnotation] = "true"
	next.Annotations[clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation] = "true"
	if err := r.Client.Patch(ctx, next, client.MergeFrom(owner)); err != nil {
		return err
	}
	if err := r.Client.Delete(ctx, owner, client.Preconditions{UID: &owner.UID}); err != nil {
		return err
	}
	log.FromContext(ctx).Info("deleted Machine of an instance that is gone", "machine", owner.Name, "instance", m.Spec.InstanceID, "shard", m.Spec.Shard, "reason", why)
	return nil
}

func (r *Reconciler) publishEvent(m *infrav1.NstanceMachine, a PublishEvent) {
	kind := corev1.EventTypeNormal
	if a.Warning {
		kind = corev1.EventTypeWarning
	}
	switch a.Reason {
	case reasonWaits:
		r.memory.note(m.UID, m.Spec.InstanceID, func(t *Tried) { t.WarnedAt = r.Now() })
	case reasonLeaked:
		r.Leaked()
	}
	r.Events.Eventf(m, nil, kind, a.Reason, "Reconcile", "%s", a.Message)
}
