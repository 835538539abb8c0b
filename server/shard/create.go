package shard

import (
	"context"
	"errors"
	"fmt"
	"nstance.dev/server/instances"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
	"nstance.dev/server/placement"
	"nstance.dev/server/provider"
	"nstance.dev/server/retry"
)

// intent is an instance that is to be: everything its create call needs, fixed
// before the first try so that each try sends the same bytes.
type intent struct {
	group    fleet.GroupID
	claim    *placement.Claim
	request  driver.CreateRequest
	attempts int // sent so far
	size     int // of the group when this was decided
	onDemand bool
	trace    string // of its record; empty: none

	// A machine that is made late has little time left for its nonce. Past this
	// moment a call that surely made none is given up for a fresh one.
	stale    time.Time
	doubtful bool // some attempt may have made the machine
}

// drop ends an intent whose call is not sent any more: the room that was counted
// for it is free, unless some call may have made the machine.
func (it *intent) drop() {
	if it.doubtful {
		it.claim.Accepted()
		return
	}
	it.claim.Dropped()
}

// prepare turns a decision to create into a durable record and a row, and hands
// the create on. A cause that is the group's own is reported and held against
// the group; the error is one of storage.
func (r *Reign) prepare(ctx context.Context, group fleet.GroupID, a fleet.Create) error {
	eff, ok := r.wanted.effective(group)
	if !ok {
		return nil // the group went away since the decision
	}
	if !r.mayLose(a.Replaces) {
		return nil
	}
	id, err := r.opts.NewID(eff.Kind)
	if err != nil {
		return fmt.Errorf("new instance id: %w", err)
	}
	launched, err := r.launch(ctx, id, eff, launchOptions{replaces: a.Replaces})
	if err != nil || !launched {
		return err
	}
	r.breakers.tried(group, r.now())
	if a.Replaces == "" {
		return nil
	}
	return r.instances.SetReplacement(a.Replaces, id)
}

// mayLose takes the replacement of a lost machine out of what a mass loss leaves for
// a minute (S8). Groups are planned at the same time: the plan has looked at the
// bound, and this keeps it.
func (r *Reign) mayLose(replaced identity.ID) bool {
	row, ok := r.instances.Known(replaced)
	if !ok || row.Power != fleet.Gone {
		return true
	}
	if r.collector.recovering() {
		return r.losses.take(r.deletionBound(), r.now())
	}
	r.losses.add(r.now())
	return true
}

// launchOptions are what sets one instance of a group apart from others.
type launchOptions struct {
	onDemand  bool
	overrides config.InstanceRequest
	replaces  identity.ID // whose place it takes; empty: the group was short of one
}

// launch records one new instance and queues its create call. It reports whether
// it did; false without an error means that the group has to wait.
func (r *Reign) launch(ctx context.Context, id identity.ID, eff *config.EffectiveGroup, opts launchOptions) (bool, error) {
	group := fleet.GroupID{Tenant: eff.Tenant, Name: eff.Key}
	s, err := r.supply(ctx, group, eff, opts)
	if s == nil {
		return false, err
	}
	it, err := r.intend(ctx, id, eff, s, opts)
	if it == nil {
		s.claim.Dropped()
		return false, err
	}
	r.enqueueCreate(it)
	return true, nil
}

// intend makes an instance durable; nil without an error means that the group
// has to wait.
func (r *Reign) intend(ctx context.Context, id identity.ID, eff *config.EffectiveGroup, s *supplies, opts launchOptions) (*intent, error) {
	group := fleet.GroupID{Tenant: eff.Tenant, Name: eff.Key}
	rec, token, err := r.draft(id, eff, s, opts)
	if err != nil {
		return nil, err
	}
	request, err := r.request(rec, token, eff, s.userdata)
	if err != nil {
		r.hold(group, "", driver.Invalid, err)
		return nil, nil
	}
	ctx, span := r.traces.start(ctx, "instance.record", group, attribute.String("nstance.instance", id.String()))
	rec.Trace = traceOf(span)
	err = r.instances.Create(ctx, rec)
	endSpan(span, err)
	if err != nil {
		if errors.Is(err, objectstore.ErrUnavailable) {
			r.tasks.Go(func() { r.withdraw(rec) })
		}
		return nil, err
	}
	return &intent{
		group: group, claim: s.claim, request: request, stale: staleAt(rec),
		size: eff.Size, onDemand: opts.onDemand, trace: rec.Trace,
	}, nil
}

// lateWrites is how long a write may still take effect whose answer was lost.
const lateWrites = time.Minute

// withdraw makes sure that a record does not stand whose write had an unknown
// outcome. It is written again, for while it stands no late write can bring it
// back, and removed when none is to be expected any more. An audit may have taken it
// in meanwhile: that instance ends with it, for nobody was asked for its machine.
func (r *Reign) withdraw(rec bucket.InstanceRecord) {
	for wait := storeRetry; retry.Wait(r.ctx, wait) == nil; wait = min(2*wait, longestDeleteRetry) {
		err := r.instances.Write(r.ctx, rec)
		if err == nil {
			if retry.Wait(r.ctx, lateWrites) != nil {
				return
			}
			err = r.instances.Remove(r.ctx, rec.ID)
		}
		switch {
		case err == nil:
			r.instances.End(rec.ID, fleet.EventCreateRefused)
			r.Enqueue(instances.GroupOf(rec)) // also where nobody had taken it in
			return
		case r.stumble(err), errors.Is(err, objectstore.ErrPrecondition):
			return
		}
		r.log.Warn("record of a failed creation not taken back", "instance", rec.ID, "retry_in", wait, "error", err)
	}
}

// draft makes the record of a new instance and its nonce.
func (r *Reign) draft(id identity.ID, eff *config.EffectiveGroup, s *supplies, opts launchOptions) (bucket.InstanceRecord, string, error) {
	now := r.now()
	ttl := r.nonceTTL()
	token, err := r.opts.Keys().Nonces.Sign(identity.NonceClaims{
		Kind: identity.NonceAgent, Subject: id.String(), ClusterID: r.opts.Cluster, Tenant: eff.Tenant,
		Shard: r.opts.Shard, Group: eff.Key, OnDemand: opts.onDemand, ConfigHash: eff.RuntimeHash,
		IssuedAt: now.Unix(), NotBefore: now.Unix(), ExpiresAt: now.Add(ttl).Unix(),
	})
	if err != nil {
		return bucket.InstanceRecord{}, "", fmt.Errorf("nonce for %s: %w", id, err)
	}
	rec, err := newRecord(id, r.opts, eff, s.claim.Offering, opts, now)
	rec.ImageID = s.imageID
	rec.GroupEntry = entryToKeep(eff, r.wanted.config(), opts.onDemand)
	rec.Provider = r.wanted.config().Server.Provider.Kind
	rec.NonceSHA256 = pki.HashNonce(token)
	rec.NonceExpires = bucket.At(now.Add(ttl))
	return rec, token, err
}

// nonceTTL is how long the nonce of a new machine lives. It is made before the machine is
// asked for, and cannot be renewed in it.
func (r *Reign) nonceTTL() time.Duration {
	server := r.wanted.config().Server
	if ttl := server.Registration.NonceTTL.Std(); ttl > 0 {
		return ttl
	}
	ttl := server.GarbageCollection.RegistrationTimeout.Std()
	if slow, ok := r.opts.Driver.(driver.SlowCreator); ok {
		ttl += slow.LongestCreate()
	}
	return ttl
}

// staleAt is when half of the time is over that an instance has to register.
func staleAt(rec bucket.InstanceRecord) time.Time {
	return rec.CreatedAt.Add(rec.NonceExpires.Sub(rec.CreatedAt.Time) / 2)
}

func (r *Reign) enqueueCreate(it *intent) {
	r.health.creating(it.request.InstanceID, true)
	r.creator.push(it)
}

// send makes one create call and deals with its outcome.
func (r *Reign) send(ctx context.Context, it *intent) {
	id := it.request.InstanceID
	if r.givesUp(ctx, it) {
		defer r.instances.Endings.Done(it.group, id)
		r.discard(ctx, it)
		return
	}
	if r.paused(it.group) {
		r.shelve(ctx, it)
		return
	}
	it.attempts++
	r.health.creating(id, false)
	started := r.now()
	traced, span := r.traces.start(belowRecorded(ctx, it.trace), "provider.create", it.group, attribute.String("nstance.instance", id.String()))
	m, err := r.provider.Create(traced, it.request)
	endSpan(span, err)
	switch kind := driver.KindOf(err); {
	case err == nil:
		r.opts.Metrics.created(r.now().Sub(started))
		r.accepted(ctx, it, m)
	case r.stumble(err):
		// The next leader finds the record and asks the provider.
	case kind == driver.Throttled:
		r.backoffs.throttled(it.group, r.now(), err)
		r.Enqueue(it.group)         // to say so
		r.health.creating(id, true) // nothing was made, and it is not missing before it is asked for again
		r.report(it.group, id, kind, err)
		r.again(ctx, it, throttledFor(err))
	case kind == driver.Ambiguous:
		it.doubtful = true
		r.report(it.group, id, kind, err)
		r.again(ctx, it, min(time.Second<<min(it.attempts-1, 5), longestRetry))
	case kind == driver.Capacity:
		it.claim.Refused(r.now())
		r.report(it.group, id, kind, err)
		r.discard(ctx, it)
	default:
		r.hold(it.group, id, kind, err)
		r.discard(ctx, it)
	}
}

// givesUp decides whether a create is not sent (any more), and notes that its instance is
// to end before anybody else decides about the group.
func (r *Reign) givesUp(ctx context.Context, it *intent) (so bool) {
	if it.doubtful {
		return false // it may have made the machine
	}
	err := r.instances.Endings.Decide(ctx, it.group, func() {
		so = r.now().After(it.stale) ||
			!it.onDemand && (r.backoffs.hopeless(it.group, r.now()) || it.surplus(r.wanted.known(it.group), r.membersOf(it.group)))
		if so {
			r.instances.Endings.Begin(it.group, it.request.InstanceID, fleet.ReasonAbandoned)
		}
	})
	return so && err == nil
}

// surplus reports whether the group was made smaller since the create was decided,
// and has enough without it (S5). The next plan would say so too; but it waits for the
// writes of the last one, of which this create's may have been the fastest.
func (it *intent) surplus(group fleet.Group, instances []fleet.Instance) bool {
	size := 0
	if !group.Deleted {
		size = group.Size
	}
	if size >= it.size {
		return false
	}
	others := 0
	for _, in := range instances {
		if in.State.Live() && !in.OnDemand && in.Condemning == "" && in.ID != it.request.InstanceID {
			others++
		}
	}
	return others >= size
}

// shelve deals with a create that a pause has caught before it was sent. The
// decision is made anew when the pause is over, with a nonce that is not half
// over by then; a call that may have made a machine already waits.
func (r *Reign) shelve(ctx context.Context, it *intent) {
	if it.doubtful {
		r.again(ctx, it, shelved)
		return
	}
	id := it.request.InstanceID
	r.log.InfoContext(ctx, "create taken back: paused", "tenant", it.group.Tenant, "group", it.group.Name, "instance", id)
	if row, _ := r.cache.Instance(id); row.OnDemand { // nobody decides about it anew
		r.events.failure(r.cache, it.group, id, "paused", "it was not made, for its group was paused; ask for it again", r.now())
	}
	r.discard(ctx, it)
}

// Pauses before an identical create call is sent once more.
const (
	throttledRetry = time.Second
	shelved        = time.Second
	longestRetry   = 30 * time.Second
)

// throttledFor is the pause that a provider asks for, within bounds.
func throttledFor(err error) time.Duration {
	if e := (*driver.Error)(nil); errors.As(err, &e) {
		return min(max(e.RetryAfter, throttledRetry), provider.ThrottlePause)
	}
	return throttledRetry
}

// again queues the same call after a pause, for as long as somebody wants it.
func (r *Reign) again(ctx context.Context, it *intent, after time.Duration) {
	r.tasks.Go(func() {
		if retry.Wait(ctx, after) == nil {
			r.enqueueCreate(it)
		}
	})
}

// accepted notes that the provider has taken the create. The agent may have
// registered in the meantime.
func (r *Reign) accepted(ctx context.Context, it *intent, m driver.Machine) {
	id := it.request.InstanceID
	r.backoffs.reset(it.group)
	it.claim.Accepted()
	r.health.created(id)
	r.observe(m, r.now())
	_, err := r.instances.Change(ctx, id, func(rec *bucket.InstanceRecord) error {
		rec.ProviderID = m.ProviderID
		fillAddresses(rec, m)
		return nil
	})
	if err != nil && !r.stumble(err) {
		// The listing finds the machine by its instance id, so nothing is lost.
		r.log.WarnContext(ctx, "provider id not recorded", "instance", id, "error", err)
	}
	r.Enqueue(it.group)
}

// discard gives an instance up whose create was refused: its record is taken
// back, for there certainly is no VM. After a lost answer there may be one, and
// the instance is deleted like any other, with its record until the end.
func (r *Reign) discard(ctx context.Context, it *intent) {
	id := it.request.InstanceID
	it.drop()
	if it.doubtful {
		err := r.condemn(ctx, fleet.Condemn{ID: id, Reason: fleet.ReasonAbandoned, Why: "refused after a lost answer"})
		if err != nil && !r.stumble(err) {
			r.log.WarnContext(ctx, "refused instance not condemned; it is found abandoned later", "instance", id, "error", err)
		}
		return
	}
	r.instances.Endings.Begin(it.group, id, fleet.ReasonAbandoned)
	defer r.instances.Endings.Done(it.group, id)
	if err := r.instances.Withdraw(ctx, id); err != nil {
		if errors.Is(err, instances.ErrCondemned) {
			return // whoever deletes it ends it
		}
		// The record stays and is found abandoned later: a delete, not a leak.
		r.stumble(err)
		r.log.WarnContext(ctx, "record of a refused instance not removed", "instance", id, "error", err)
		return
	}
	r.instances.End(id, fleet.EventCreateRefused)
}

// hold reports a failed create and keeps the group's next ones back.
func (r *Reign) hold(group fleet.GroupID, id identity.ID, kind driver.Kind, err error) {
	wait := r.backoffs.block(group, r.now(), kind, err)
	r.report(group, id, kind, err)
	r.log.Warn("creates held back", "tenant", group.Tenant, "group", group.Name, "class", kind, "for", wait)
	r.queue.AddAfter(group, wait)
}

// report tells the tenant, the log and the metrics about a failed create. An
// error that repeats is said to the tenant once, until a create succeeds.
func (r *Reign) report(group fleet.GroupID, id identity.ID, kind driver.Kind, err error) {
	r.opts.Metrics.createFailed(group, kind)
	r.logTrouble(group, id, kind, err)
	same := strings.ReplaceAll(string(kind)+err.Error(), id.String(), "")
	if r.backoffs.news(group, same) {
		r.events.failure(r.cache, group, id, string(kind), err.Error(), r.now())
	}
}

func (r *Reign) logTrouble(group fleet.GroupID, id identity.ID, kind driver.Kind, err error) {
	r.log.Warn("provider error", "tenant", group.Tenant, "group", group.Name, "instance", id, "class", kind, "error", err)
}
