package providererror

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/status"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// backlog is how many errors may wait.
const backlog = 256

// manager owns the part of a machine's status that is about errors.
var manager = status.FieldManager("providererrors")

// Options are the surroundings of a Reporter; all are required unless said.
type Options struct {
	Client    client.Client
	Namespace string
	// Cluster is the name of the NstanceCluster.
	Cluster string
	Events  events.EventRecorder
	CoolOff *inventory.CoolOffs
	// Count hears of every error, published or not, and of those that are lost because too
	// many came at once; nil: nobody does.
	Count func(shard, class string, lost bool)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Reporter passes errors on. New makes one; Report is safe for concurrent use.
type Reporter struct {
	Options
	waiting chan report
	budget  Budget
	// machines has the errors of instances, which are written by Reconcile.
	machines machines
}

type report struct {
	shard string
	event *nstancev1.ErrorEvent
}

// New returns a reporter.
func New(o Options) *Reporter {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Count == nil {
		o.Count = func(string, string, bool) {}
	}
	return &Reporter{Options: o, waiting: make(chan report, backlog)}
}

// Report takes an error in and returns at once. That there is no room counts from now on;
// Start publishes it, and Reconcile writes it into the status of a machine.
func (r *Reporter) Report(shard string, e *nstancev1.ErrorEvent) {
	v := Judge(shard, e)
	if v.NoRoom && e.GetGroup() != "" {
		r.CoolOff.Refused(inventory.ShardGroup{Shard: shard, Group: e.GetGroup()}, inventory.Refusal{Quota: v.Quota, Why: v.Message}, r.Now())
	}
	if id := e.GetInstanceId(); id != "" {
		r.machines.note(id, v, r.Now())
	}
	select {
	case r.waiting <- report{shard, e}:
		r.Count(shard, e.GetClass(), false)
	default:
		r.Count(shard, e.GetClass(), true)
	}
}

// Start passes errors on until ctx ends. A manager runs it on the leader.
func (r *Reporter) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case next := <-r.waiting:
			if err := r.publish(ctx, next.shard, next.event); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "an error of a shard was not passed on", "shard", next.shard)
			}
		}
	}
}

// publish says an error of the most specific object there is.
func (r *Reporter) publish(ctx context.Context, shard string, e *nstancev1.ErrorEvent) error {
	v := Judge(shard, e)
	m, err := r.machine(ctx, e.GetInstanceId())
	if err != nil {
		return err
	}
	object, err := r.object(ctx, shard, e.GetGroup(), m)
	if err != nil {
		return err
	}
	if object != nil && r.budget.Spend(shard, string(object.GetUID()), v.Message, r.Now()) {
		r.Events.Eventf(object, nil, corev1.EventTypeWarning, "ProviderError", v.Word, "%s", v.Message)
	}
	return nil
}

func (r *Reporter) machine(ctx context.Context, instance string) (*infrav1.NstanceMachine, error) {
	if instance == "" {
		return nil, nil
	}
	return nodes.Machine(ctx, r.Client, r.Namespace, instance)
}

// object returns what an error is about: the machine, the shard group, or the cluster.
func (r *Reporter) object(ctx context.Context, shard, group string, m *infrav1.NstanceMachine) (client.Object, error) {
	if m != nil {
		return m, nil
	}
	if group != "" {
		part := &infrav1.NstanceShardGroup{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: capi.ShardGroup(group, shard)}, part)
		if err == nil {
			return part, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	cluster := &infrav1.NstanceCluster{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Cluster}, cluster); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return cluster, nil
}
