package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Options are the surroundings of a Reconciler; all are required.
type Options struct {
	// Client reads from a cache, which has the index of [IndexField], and writes.
	Client    client.Client
	Inventory *inventory.Store
	Tenant    string // of the operator
	Events    events.EventRecorder
	Log       *slog.Logger
	Now       func() time.Time
}

// Reconciler keeps the HostMachines of instances. New makes one; it is safe for concurrent use.
type Reconciler struct{ opts Options }

// New returns a reconciler.
func New(o Options) *Reconciler { return &Reconciler{opts: o} }

var manager = status.FieldManager("hosts-inventory")

// Reconcile looks at one instance, which the request names.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, request.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := Decide(o)
	log := r.opts.Log.With("machine", request.Name, "shard", o.Shard, "reason", d.Reason)
	switch d.Action {
	case Make:
		return ctrl.Result{}, r.make(ctx, o, d, log)
	case Keep:
		var result ctrl.Result
		if !o.HeldUntil.IsZero() { // its end is no news of the shard's
			result.RequeueAfter = max(o.HeldUntil.Sub(r.opts.Now()), time.Millisecond)
		}
		return result, r.keep(ctx, o.Machine, d, log)
	case Delete:
		return ctrl.Result{}, r.delete(ctx, o.Machine, d, log)
	case Leave:
		log.DebugContext(ctx, "host machine left as it is")
	}
	return ctrl.Result{}, nil
}

// observe gathers what is known of an instance.
func (r *Reconciler) observe(ctx context.Context, id string) (Observation, error) {
	o := Observation{Tenant: r.opts.Tenant, Presence: inventory.Unknown, Shard: r.opts.Inventory.Find(id)}
	m := &hostsv1.HostMachine{}
	switch err := r.opts.Client.Get(ctx, client.ObjectKey{Name: id}, m); {
	case err == nil:
		o.Machine = m
		if in := m.Spec.Instance; in != nil {
			o.Shard = string(in.Shard)
		}
	case !apierrors.IsNotFound(err):
		return o, fmt.Errorf("read HostMachine %s: %w", id, err)
	}
	var claims hostsv1.HostMachineList
	if err := r.opts.Client.List(ctx, &claims, client.MatchingFields{IndexField: id}, client.UnsafeDisableDeepCopy); err != nil {
		return o, fmt.Errorf("list the HostMachines of instance %s: %w", id, err)
	}
	for i := range claims.Items {
		if name := claims.Items[i].Name; name != id {
			o.ClaimedBy = name
		}
	}
	r.opts.Inventory.Read(o.Shard, func(s *inventory.Shard) {
		o.Presence, o.Instance, o.WhyGone = s.Presence(id), s.Instance(id), s.WhyDeleted(id)
		if o.Instance != nil {
			o.HeldUntil = inventory.HeldUntil(o.Instance, r.opts.Now())
			o.Group = s.Group(o.Instance.GetGroup())
		}
	})
	return o, nil
}

// make makes the HostMachine of an instance. What it says of the host is written once the cache has it.
func (r *Reconciler) make(ctx context.Context, o Observation, d Decision, log *slog.Logger) error {
	m := object(o.Shard, o.Instance, d)
	if err := r.opts.Client.Create(ctx, m, manager); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil // the cache will have it
		}
		return fmt.Errorf("create HostMachine %s: %w", m.Name, err)
	}
	r.opts.Events.Eventf(m, nil, corev1.EventTypeNormal, hostsv1.EventMachineCreated, "Create", "%s", d.Reason)
	log.InfoContext(ctx, "made HostMachine", "group", o.Instance.GetGroup())
	return nil
}

// object is the HostMachine of an instance.
func object(shard string, in *nstancev1.InstanceStatus, d Decision) *hostsv1.HostMachine {
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: in.GetInstanceId()}}
	m.Spec.Provisioner, m.Spec.ProviderID = hostsv1.ProvisionerNstance, d.ProviderID
	m.Spec.Instance = &hostsv1.InstanceReference{
		Shard: hostsv1.Name(shard), Tenant: hostsv1.Name(in.GetTenant()), Group: hostsv1.Name(in.GetGroup()), ID: hostsv1.InstanceID(in.GetInstanceId()), OnDemand: in.GetOnDemand(),
	}
	labels, remembered := relabel(m, d.Own, d.OfGroup)
	m.Labels = map[string]string{}
	for name, value := range labels {
		m.Labels[name] = *value
	}
	if remembered != "" {
		m.Annotations = map[string]string{hostsv1.AnnotationNodeLabels: remembered}
	}
	return m
}

// keep has a HostMachine say what is known, where it does not.
func (r *Reconciler) keep(ctx context.Context, m *hostsv1.HostMachine, d Decision, log *slog.Logger) error {
	if change := patch(m, d); change != nil {
		data, err := json.Marshal(change)
		if err != nil {
			return fmt.Errorf("patch of HostMachine %s: %w", m.Name, err)
		}
		if err := r.opts.Client.Patch(ctx, m.DeepCopy(), client.RawPatch(types.MergePatchType, data), manager); err != nil {
			return ignoreGone(err, "label HostMachine "+m.Name)
		}
		log.InfoContext(ctx, "changed HostMachine", "change", string(data))
		if len(d.Unfit) > 0 {
			log.WarnContext(ctx, "labels left out", "labels", d.Unfit, "reason", "their values are not valid as labels")
		}
	}
	next := status.Next(m.Status.Conditions, d.Conditions, m.Generation, r.opts.Now())
	if equality.Semantic.DeepEqual(status.Select(m.Status.Conditions, next), next) && equality.Semantic.DeepEqual(m.Status.Hold, d.Hold) {
		return nil
	}
	object := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: m.Name, UID: m.UID}}
	object.Status.Conditions, object.Status.Hold = next, d.Hold
	return ignoreGone(status.Apply(ctx, r.opts.Client, object, manager), "write the status of HostMachine "+m.Name)
}

// patch is the merge patch by which a HostMachine gets its labels and its provider id; nil: it has them.
func patch(m *hostsv1.HostMachine, d Decision) map[string]any {
	metadata := map[string]any{}
	if d.Own != nil {
		labels, remembered := relabel(m, d.Own, d.OfGroup)
		if len(labels) > 0 {
			metadata["labels"] = labels
		}
		if was := m.Annotations[hostsv1.AnnotationNodeLabels]; was != remembered {
			metadata["annotations"] = map[string]*string{hostsv1.AnnotationNodeLabels: nonEmpty(remembered)}
		}
	}
	change := map[string]any{}
	if m.Spec.ProviderID == "" && d.ProviderID != "" {
		change["spec"] = map[string]any{"providerID": d.ProviderID}
	}
	if len(metadata) == 0 && len(change) == 0 {
		return nil
	}
	metadata["uid"] = m.UID // of this object, and of none that came later
	change["metadata"] = metadata
	return change
}

func nonEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// delete deletes the HostMachine that was seen.
func (r *Reconciler) delete(ctx context.Context, m *hostsv1.HostMachine, d Decision, log *slog.Logger) error {
	if err := r.opts.Client.Delete(ctx, m, client.Preconditions{UID: &m.UID}); err != nil {
		return ignoreGone(err, "delete HostMachine "+m.Name)
	}
	r.opts.Events.Eventf(m, nil, corev1.EventTypeNormal, hostsv1.EventMachineDeleted, "Delete", "%s", d.Reason)
	log.InfoContext(ctx, "deleted HostMachine")
	return nil
}

func ignoreGone(err error, what string) error {
	if client.IgnoreNotFound(err) == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
