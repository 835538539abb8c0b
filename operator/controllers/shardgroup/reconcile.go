package shardgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/backoff"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/status"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Server is the part of a connection to a shard that is used here.
type Server interface {
	UpsertGroup(context.Context, *nstancev1.UpsertGroupRequest) (*nstancev1.GroupStatus, error)
	DeleteGroup(context.Context, *nstancev1.DeleteGroupRequest) error
	Status() shards.Status
}

var _ Server = (*shards.Shard)(nil)

// Reconciler carries NstanceShardGroups to their shards. All exported fields are required.
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

	failed backoff.Memory
}

var manager = status.FieldManager("shardgroup")

// Reconcile looks at one object, does one thing about it, and says in its status how it
// stands.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var object infrav1.NstanceShardGroup
	if err := r.Client.Get(ctx, request.NamespacedName, &object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	p, err := r.observe(ctx, r.Client, &object)
	if err != nil {
		return ctrl.Result{}, err
	}
	if p.paused {
		return ctrl.Result{}, r.write(ctx, p, p.pausedStatus(r.Now()))
	}
	if object.DeletionTimestamp.IsZero() {
		if err := r.hold(ctx, &object); err != nil {
			return ctrl.Result{}, err
		}
	}
	d := decide(p, r.Now())
	if p.takes(d) {
		if err := r.Live.Get(ctx, request.NamespacedName, &object); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		if p, err = r.observe(ctx, r.Live, &object); err != nil {
			return ctrl.Result{}, err
		}
		if p.paused { // since the first look
			return ctrl.Result{}, r.write(ctx, p, p.pausedStatus(r.Now()))
		}
		d = decide(p, r.Now())
	}
	o, err := r.act(ctx, p, d)
	p.logged(ctx, o, err)
	if err != nil || d.action == release || d.action == revert && o.failure == nil {
		return ctrl.Result{}, err
	}
	r.hear(&p)
	next := nextStatus(p, o, r.Now())
	r.tell(p, o, next)
	if err := r.write(ctx, p, next); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: o.again}, nil
}

// logged logs a decision that was carried out.
func (p part) logged(ctx context.Context, o outcome, err error) {
	said := map[action]string{
		send: "upserted group", repair: "repaired group", remove: "deleted group", revert: "reverted static group", release: "released group",
	}[o.action]
	if said == "" || err != nil || o.failure != nil || o.request == nil && (o.action == send || o.action == repair) {
		return
	}
	ctrl.LoggerFrom(ctx).Info(said, "group", p.object.Spec.Group, "shard", p.object.Spec.Shard,
		"size", p.size(), "was", p.group.GetSize(), "retiring", len(p.object.Spec.Retiring), "generation", p.object.Generation, "reason", o.why)
}

// hold puts the finalizer on, before anything is asked of a server.
func (r *Reconciler) hold(ctx context.Context, object *infrav1.NstanceShardGroup) error {
	before := object.DeepCopy()
	if !controllerutil.AddFinalizer(object, infrav1.FinalizerShardGroup) {
		return nil
	}
	return r.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// act carries a decision out.
func (r *Reconciler) act(ctx context.Context, p part, d decision) (outcome, error) {
	o := outcome{decision: d}
	switch d.action {
	case rest, yield, hold:
		return o, nil
	case send, repair:
		return r.send(ctx, p, o)
	case remove, revert:
		if d.action == remove {
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
				return o, r.release(ctx, p, d)
			}
		}
		return r.concluded(ctx, p, o, err)
	case release:
		return o, r.release(ctx, p, d)
	default:
		panic("shardgroup: no such action: " + string(d.action))
	}
}

// send tells the shard what the spec says. If the group turns out to be static, it is told
// once more, without what is locked then.
func (r *Reconciler) send(ctx context.Context, p part, o outcome) (outcome, error) {
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
		r.learn(p.object.Spec.Shard, reply)
		o.request = request
	}
	return r.concluded(ctx, p, o, err)
}

// concluded keeps what a shard answered to a call; every other error is returned. After a
// failure it notes when the next call may be made.
func (r *Reconciler) concluded(ctx context.Context, p part, o outcome, err error) (outcome, error) {
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
	ctrl.LoggerFrom(ctx).Info("call failed", "group", p.object.Spec.Group, "shard", p.object.Spec.Shard, "action", string(o.action),
		"error", err.Error(), "retryIn", o.again.Round(time.Second).String())
	return o, nil
}

// release lets the object go.
func (r *Reconciler) release(ctx context.Context, p part, d decision) error {
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

// write stores the status, if it has changed.
func (r *Reconciler) write(ctx context.Context, p part, next infrav1.NstanceShardGroupStatus) error {
	if !p.paused && next.Replicas >= p.object.Spec.Size { // the provider had room after all
		r.CoolOff.Filled(inventory.Place{Shard: p.object.Spec.Shard, Group: p.object.Spec.Group})
	}
	if equality.Semantic.DeepEqual(p.object.Status, next) {
		return nil
	}
	object := &infrav1.NstanceShardGroup{ObjectMeta: p.object.ObjectMeta, Status: next}
	if err := status.Apply(ctx, r.Client, object, manager); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of NstanceShardGroup %s: %w", object.Name, err)
	}
	return nil
}

// Pauses after failures that no event ends.
const (
	conflictPause  = time.Second // until the stream has brought what changed
	exhaustedPause = 5 * time.Second
	refusedPause   = 30 * time.Second
	managedPause   = 10 * time.Minute
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
