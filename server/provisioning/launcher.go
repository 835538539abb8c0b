package provisioning

import (
	"context"
	"errors"
	"sync"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/render"
	"nstance.dev/server/traces"
)

// Launcher makes machines for one leader's term. It is safe for concurrent use.
type Launcher struct {
	opts     Options
	resolver *resolver
	builder  *builder
	queue    *queue
	backoffs *backoffs
	breakers *breakers
}

// New returns a launcher that nothing was asked of. It starts nothing.
func New(opts Options) *Launcher {
	l := &Launcher{opts: opts, resolver: newResolver(opts), backoffs: newBackoffs(opts.Jitter), breakers: newBreakers()}
	l.builder = &builder{opts: opts, images: l.resolver.images.Known}
	l.queue = newQueue(opts.Provider, opts.Cache, l.send)
	return l
}

// Run sends create calls and finds out what it takes to make them until ctx ends, and waits for what is under way.
func (l *Launcher) Run(ctx context.Context) {
	var lookups sync.WaitGroup
	defer lookups.Wait()
	lookups.Go(func() { l.resolver.run(ctx) })
	l.queue.run(ctx)
}

// Configure takes the images of a configuration over. One call at a time.
func (l *Launcher) Configure(cfg *effective.Config) { l.resolver.configureImages(cfg) }

// Edited notes that somebody has edited a group: what failed before may work now.
func (l *Launcher) Edited(group fleet.GroupID) {
	l.backoffs.reset(group)
	l.breakers.reset(group)
}

// Launch makes one new instance durable and queues its create call. It reports whether it
// did; false without an error means that the group has to wait, and that is said to its
// tenant. A caller's instance waits for answers, that of a group does so without a worker.
// The error is one of storage, or of ctx.
func (l *Launcher) Launch(ctx context.Context, id identity.ID, eff *effective.Group, req Request) (bool, error) {
	group := fleet.GroupID{Tenant: eff.Tenant, Name: eff.Key}
	s, err := l.inputs(ctx, group, eff, req)
	if s == nil {
		return false, err
	}
	it, err := l.prepare(ctx, id, eff, s, req)
	if it == nil {
		s.claim.Dropped()
		return false, err
	}
	l.enqueue(it)
	if !req.OnDemand {
		l.breakers.tried(group, l.opts.Now())
	}
	return true, nil
}

// TemplateData is what the templates of one instance may refer to, but for its nonce.
func (l *Launcher) TemplateData(rec layout.InstanceRecord, eff *effective.Group) render.Data {
	return l.builder.templateData(rec, eff)
}

// WaitForCall waits until no create call of the instance is under way. A call that has not
// been sent by then finds the instance condemned and is dropped.
func (l *Launcher) WaitForCall(ctx context.Context, id identity.ID) error {
	return l.queue.awaitCompletion(ctx, id)
}

// inputs resolves what it takes to make one machine; nil without an error means
// that the group has to wait. A caller who asked for an instance waits for the
// answers, a group does so without a worker.
func (l *Launcher) inputs(ctx context.Context, group fleet.GroupID, eff *effective.Group, req Request) (*launchInputs, error) {
	for {
		s, missing, err := l.resolver.resolve(eff)
		switch {
		case err != nil:
			l.backOff(group, "", driver.ClassOf(err), err)
			return nil, nil
		case len(missing) == 0:
			return s, nil
		case !req.OnDemand:
			l.resolver.dependencies.addWaiting(group, missing)
			return nil, nil
		}
		if err := l.resolver.dependencies.awaitAll(ctx, missing); err != nil {
			return nil, err
		}
	}
}

// prepare makes an instance durable; nil without an error means that the group
// has to wait.
func (l *Launcher) prepare(ctx context.Context, id identity.ID, eff *effective.Group, s *launchInputs, req Request) (*attempt, error) {
	group := fleet.GroupID{Tenant: eff.Tenant, Name: eff.Key}
	rec, token, err := l.builder.record(id, eff, s, req)
	if err != nil {
		return nil, err
	}
	request, err := l.builder.request(rec, token, eff, s.userdata, req.purchase)
	if err != nil && req.purchase != nil {
		l.report(group, "", driver.Invalid, err)
		return nil, driver.Fail(driver.Invalid, "create", err)
	}
	if err != nil {
		l.backOff(group, "", driver.Invalid, err)
		return nil, nil
	}
	it := &attempt{
		Attempt: fleet.Attempt{
			ID: id, State: fleet.AttemptRecording, OnDemand: req.OnDemand, Bought: req.purchase != nil, Size: eff.Size, Stale: staleAt(rec),
		},
		group: group, claim: s.claim, request: request,
	}
	if req.purchase != nil {
		it.refused = req.purchase.Refused
	}
	event, err := l.record(ctx, it, &rec)
	it.on(event)
	switch it.State {
	case fleet.AttemptQueued:
		return it, nil
	case fleet.AttemptUnrecorded:
		l.opts.Go(func(ctx context.Context) { l.unrecord(ctx, rec) })
	}
	return nil, err
}

// record writes the record of an attempt.
func (l *Launcher) record(ctx context.Context, it *attempt, rec *layout.InstanceRecord) (fleet.AttemptEvent, error) {
	ctx, span := l.opts.Traces.Start(ctx, "instance.record", it.group, traces.Instance(it.ID))
	rec.Trace = traces.Of(span)
	it.trace = rec.Trace
	err := l.opts.Instances.Create(ctx, *rec)
	traces.End(span, err)
	switch {
	case err == nil:
		return fleet.AttemptEventRecorded, nil
	case errors.Is(err, objectstore.ErrUnavailable):
		return fleet.AttemptEventRecordUnclear, err
	default:
		return fleet.AttemptEventRecordRefused, err
	}
}

func (l *Launcher) enqueue(it *attempt) {
	l.opts.Liveness.CreateQueued(it.ID)
	l.queue.push(it)
}
