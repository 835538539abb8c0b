package shardgroup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/backoff"
	"nstance.dev/operator/demand/settings"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/status"
	"nstance.dev/operator/telemetry"
	"nstance.dev/operator/unsent"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Server is the part of a connection to a shard that is used here.
type Server interface {
	UpsertGroup(context.Context, *nstancev1.UpsertGroupRequest) (*nstancev1.GroupStatus, error)
	DeleteGroup(context.Context, *nstancev1.DeleteGroupRequest) error
	Status() shards.Status
}

var _ Server = (*shards.Shard)(nil)

// Reconciler carries NstanceShardGroups to their shards. All exported fields are required unless said.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server itself, past all caches.
	Live client.Reader
	// Server returns the connection to a shard; false: it is not configured.
	Server    func(shard string) (Server, bool)
	Inventory *inventory.Store
	CoolOff   *inventory.CoolOffs
	Events    events.EventRecorder
	Now       func() time.Time
	// Unsent are the sizes that statuses wait for; nil: none waits.
	Unsent *unsent.Sizes
	// Traces follow a change of an object to its shard; nil: nothing is traced.
	Traces *telemetry.Traces

	failed    backoff.Memory
	unwritten unwritten
}

var manager = status.FieldManager("shardgroup")

// Reconcile looks at one object, does one thing about it, and says in its status how it
// stands.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var object infrav1.NstanceShardGroup
	if err := r.Client.Get(ctx, request.NamespacedName, &object); err != nil {
		r.unwritten.forget(request.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	stored := r.unwritten.take(&object)
	p, err := r.observe(ctx, r.Client, &object)
	if err != nil {
		return ctrl.Result{}, err
	}
	if p.paused {
		return ctrl.Result{}, r.write(ctx, p, stored, p.pausedStatus(r.Now()))
	}
	if object.DeletionTimestamp.IsZero() {
		if err := r.ensureFinalizer(ctx, &object); err != nil {
			return ctrl.Result{}, err
		}
	}
	d := decide(p, r.Now())
	if d.callsShard() {
		err := r.Live.Get(ctx, request.NamespacedName, &object)
		if client.IgnoreNotFound(err) != nil {
			return askAgain(ctx, d, err), nil //nolint:nilerr // it is logged
		}
		if err != nil {
			return ctrl.Result{}, nil //nolint:nilerr // it is gone
		}
		stored = r.unwritten.take(&object)
		if p, err = r.observe(ctx, r.Client, &object); err != nil {
			return ctrl.Result{}, err
		}
		d = decide(p, r.Now())
	}
	if p.endsInstances(d) {
		if p, err = r.observe(ctx, r.Live, &object); err != nil {
			return ctrl.Result{}, err
		}
		d = decide(p, r.Now())
	}
	if p.grows(d) {
		most, known, err := r.most(ctx, &object)
		switch {
		case err != nil:
			return askAgain(ctx, d, err), nil
		case known && int(object.Spec.SizeOrZero()) > most:
			d = p.postpone(most)
		}
	}
	if p.paused { // since the first look
		return ctrl.Result{}, r.write(ctx, p, stored, p.pausedStatus(r.Now()))
	}
	return r.carryOut(ctx, p, stored, d)
}

// carryOut carries a decision out, and says in the status what came of it: stored is the one that the API
// server has. Where other groups' sizes are on their way, the status waits for them.
func (r *Reconciler) carryOut(ctx context.Context, p shardGroup, stored infrav1.NstanceShardGroupStatus, d decision) (ctrl.Result, error) {
	o, err := r.actTraced(ctx, p, d)
	r.Unsent.Done(unsent.ShardGroup(client.ObjectKeyFromObject(p.object)), p.object.Generation)
	p.logDecision(ctx, o, err)
	if err != nil || d.action == removeFinalizer || d.action == revert && o.failure == nil {
		return ctrl.Result{}, err
	}
	r.readInventory(&p)
	next := nextStatus(p, o, r.Now())
	r.publishEvents(p, o, next)
	if !equality.Semantic.DeepEqual(stored, next) {
		if wait := r.Unsent.Defer(unsent.ShardGroup(client.ObjectKeyFromObject(p.object))); wait > 0 {
			r.unwritten.put(p.object, next)
			return status.Deferred(wait, o.again), nil
		}
	}
	if err := r.write(ctx, p, stored, next); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: o.again}, nil
}

// askAgain ends a pass in which the API server did not answer, and so the shard is not called. The pause
// does not grow with the outage.
func askAgain(ctx context.Context, d decision, err error) ctrl.Result {
	ctrl.LoggerFrom(ctx).Info("shard not called: the API server does not answer", "action", string(d.action), "error", err.Error())
	return ctrl.Result{RequeueAfter: livePause}
}

// logDecision logs a decision that was carried out.
func (p shardGroup) logDecision(ctx context.Context, o outcome, err error) {
	said := map[action]string{
		upsert: "upserted group", repair: "repaired group", deleteGroup: "requested group deletion", revert: "reverted static group", removeFinalizer: "removed finalizer",
	}[o.action]
	if said == "" || err != nil || o.failure != nil || o.request == nil && (o.action == upsert || o.action == repair) {
		return
	}
	values := []any{"group", p.object.Spec.Group, "shard", p.object.Spec.Shard}
	switch spec := p.object.Spec; {
	case spec.Demand != nil:
		values = append(values, "mode", settings.ModeDemand, "was", p.group.GetMode(), "min", ptr.Deref(spec.Demand.Min, 0), "max", bound(spec.Demand.Max),
			"min_idle", ptr.Deref(spec.Demand.MinIdle, 0))
	case spec.Size == nil:
		values = append(values, "mode", settings.ModeFixed, "was", p.group.GetMode())
	default:
		values = append(values, "size", p.size(), "was", p.group.GetSize(), "retiring", len(spec.Retiring))
	}
	ctrl.LoggerFrom(ctx).Info(said, append(values, "generation", p.object.Generation, "reason", o.why)...)
}

// bound is an upper bound in words.
func bound(n *int32) string {
	if n == nil {
		return "unlimited"
	}
	return strconv.Itoa(int(*n))
}

// ensureFinalizer adds the finalizer, before any call to a server.
func (r *Reconciler) ensureFinalizer(ctx context.Context, object *infrav1.NstanceShardGroup) error {
	with := object.DeepCopy()
	if !controllerutil.AddFinalizer(with, infrav1.FinalizerShardGroup) {
		return nil
	}
	err := r.Client.Patch(ctx, with, client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{}))
	if err == nil {
		object.ObjectMeta = with.ObjectMeta // the status stays as it is here
	}
	return err
}

// actTraced carries a decision out. A call to the shard has a span, below the one that changed
// the object.
func (r *Reconciler) actTraced(ctx context.Context, p shardGroup, d decision) (outcome, error) {
	key := client.ObjectKeyFromObject(p.object)
	if !d.callsShard() {
		if d.action == removeFinalizer {
			r.Traces.Settled(key)
		}
		return r.act(ctx, p, d)
	}
	ctx, span := r.Traces.Begin(ctx, "shardgroup.reconcile", key,
		attribute.String("nstance.group", p.object.Spec.Group), attribute.String("nstance.shard", p.object.Spec.Shard))
	o, err := r.act(ctx, p, d)
	failed := err
	if o.failure != nil {
		failed = o.failure
	}
	if failed == nil {
		r.Traces.Settled(key)
	}
	telemetry.End(span, failed)
	return o, err
}

// act carries a decision out.
func (r *Reconciler) act(ctx context.Context, p shardGroup, d decision) (outcome, error) {
	o := outcome{decision: d}
	switch d.action {
	case noAction, backOff, waitForDeletion:
		return o, nil
	case upsert, repair:
		return r.upsert(ctx, p, o)
	case deleteGroup, revert:
		if d.action == deleteGroup {
			r.announce(p, o)
		}
		server, ok := r.Server(p.object.Spec.Shard)
		if !ok { // it left the configuration since it was looked at
			return o, nil
		}
		err := server.DeleteGroup(ctx, &nstancev1.DeleteGroupRequest{Key: p.object.Spec.Group})
		if d.action == revert {
			switch shards.ClassOf(err) {
			case "", shards.NotFound, shards.OtherManager: // nothing of ours is left there
				return o, r.removeFinalizer(ctx, p, d)
			}
		}
		return r.recordResult(ctx, p, o, err)
	case removeFinalizer:
		return o, r.removeFinalizer(ctx, p, d)
	default:
		panic("shardgroup: no such action: " + string(d.action))
	}
}

// upsert writes the spec to the shard. If the group turns out to be static, it is written
// once more, without what is locked then.
func (r *Reconciler) upsert(ctx context.Context, p shardGroup, o outcome) (outcome, error) {
	server, ok := r.Server(p.object.Spec.Shard)
	if !ok {
		return o, nil
	}
	request := p.request(p.static())
	reply, err := server.UpsertGroup(ctx, request)
	if shards.ClassOf(err) == shards.Locked {
		request = p.request(true)
		reply, err = server.UpsertGroup(ctx, request)
	}
	if err == nil {
		r.recordReply(p.object.Spec.Shard, reply)
		o.request = request
	}
	return r.recordResult(ctx, p, o, err)
}

// recordResult keeps what a shard answered to a call; every other error is returned. After a
// failure it notes when the next call may be made.
func (r *Reconciler) recordResult(ctx context.Context, p shardGroup, o outcome, err error) (outcome, error) {
	uid := p.object.UID
	switch {
	case err == nil:
		r.failed.Forget(uid)
		return o, nil
	case !errors.As(err, &o.failure):
		return o, err
	}
	o.again = r.failed.Failed(uid, p.about(), err.Error(), r.Now(), func(failures int) time.Duration {
		return pauseAfter(o.failure.Class, string(uid), failures)
	})
	ctrl.LoggerFrom(ctx).Info("call to the shard failed", "group", p.object.Spec.Group, "shard", p.object.Spec.Shard, "action", string(o.action),
		"error", err.Error(), "retry_in", o.again.Round(time.Second).String())
	return o, nil
}

// removeFinalizer removes the finalizer, so that the API server deletes the object.
func (r *Reconciler) removeFinalizer(ctx context.Context, p shardGroup, d decision) error {
	before := p.object.DeepCopy()
	if !controllerutil.RemoveFinalizer(p.object, infrav1.FinalizerShardGroup) {
		return nil
	}
	err := r.Client.Patch(ctx, p.object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	r.failed.Forget(p.object.UID)
	r.released(p, d)
	return nil
}

// write writes the status, if it is another one than the API server has.
func (r *Reconciler) write(ctx context.Context, p shardGroup, stored, next infrav1.NstanceShardGroupStatus) error {
	if !p.paused && next.Replicas >= p.object.Spec.SizeOrZero() { // the provider had room after all
		r.CoolOff.Filled(inventory.ShardGroup{Shard: p.object.Spec.Shard, Group: p.object.Spec.Group})
	}
	name := client.ObjectKeyFromObject(p.object)
	if equality.Semantic.DeepEqual(stored, next) {
		r.unwritten.forget(name)
		return nil
	}
	object := &infrav1.NstanceShardGroup{ObjectMeta: p.object.ObjectMeta, Status: next}
	if err := status.Apply(ctx, r.Client, object, manager); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of NstanceShardGroup %s: %w", object.Name, err)
	}
	r.unwritten.forget(name)
	return nil
}

// Pauses after failures that no event ends.
const (
	conflictPause  = time.Second // until the stream has brought what changed
	exhaustedPause = 5 * time.Second
	refusedPause   = 30 * time.Second
	managedPause   = 10 * time.Minute
	livePause      = 5 * time.Second // until the API server is asked again
	longestPause   = 5 * time.Minute
)

// pauseAfter is how long a shard is left alone about an object after so many failures in a
// row, if nothing changes before.
func pauseAfter(class shards.Class, key string, failures int) time.Duration {
	switch class {
	case shards.Conflict:
		return backoff.Growing(key, failures, conflictPause, refusedPause)
	case shards.Exhausted:
		return backoff.Growing(key, failures, exhaustedPause, longestPause)
	case shards.OtherManager:
		return managedPause
	case shards.Invalid, shards.Precondition, shards.Locked, shards.OverQuota:
		return backoff.Refused(key, failures)
	case shards.Unavailable, shards.Broken, shards.Ended, shards.NotFound:
		return backoff.Growing(key, failures, time.Second, longestPause)
	default:
		return backoff.Growing(key, failures, refusedPause, longestPause)
	}
}
