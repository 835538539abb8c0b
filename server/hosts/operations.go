package hosts

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/power"
	"nstance.dev/server/refusal"
)

// Bounds of operations (S22).
const (
	maxParams        = 32
	maxParamKey      = 63
	maxParamValue    = 4096
	longestOperation = 24 * time.Hour
	keepOperations   = 24 * time.Hour // those that are over, as their callers may ask again
	keepOfInstance   = 16             // that are over, whatever their age
	leastHold        = time.Minute    // that is left of a hold when an operation begins
	lookAgain        = 5 * time.Second
)

// OperationOptions are what [Operations] work with. All are required.
type OperationOptions struct {
	Shard string
	Term  uint64
	Store objectstore.Store
	// Writes bounds the repetition of writes. Its Permit proves the lease (S2).
	Writes objectstore.RetryPolicy
	Cache  *cache.Cache // read

	Provider Switch
	// Observed is told what the provider shows of a machine, and when it was asked.
	Observed func(vm driver.Machine, asked time.Time)

	// Go runs a function in a goroutine that the leader's term waits for.
	Go func(func())
	// Over reports whether err ends the leader's term, and ends it if so.
	Over func(err error) bool

	Metrics *Metrics
	Now     func() time.Time
	Log     *slog.Logger
}

// Switch looks at machines and switches them. [provider.Client] does.
type Switch interface {
	// SwitchesPower reports whether the provider can; unless it can, only Get is called.
	SwitchesPower() bool
	Get(ctx context.Context, ref driver.Ref) (driver.Machine, error)
	PowerActions(ctx context.Context, ref driver.Ref) ([]driver.PowerAction, error)
	Power(ctx context.Context, group fleet.GroupID, ref driver.Ref, action driver.PowerAction) error
}

// Operations switch machines off and on for a shard's operators, for one leader's term. It is
// safe for concurrent use.
//
// An operation is an object of its own in storage, written before anything is sent; what comes
// next package power decides. The next leader goes on where this one has stopped. Nothing is sent
// of an operation whose instance is not on hold for it, so that no health rule mistakes it for a
// failure, and its deadline is the end of that hold at the latest. No object is listed as long as no instance was made from a template with node
// machines, which are what operations are about.
//
// Lock order: the mutex of the operations, then that of one. Nothing is called under either.
type Operations struct {
	opts OperationOptions
	ctx  context.Context //nolint:containedctx // the leadership's: effects end with it, not with a caller

	mu     sync.Mutex
	all    map[operationKey]*operation
	busy   map[identity.ID]*operation   // the one of each instance that is not over
	ended  map[identity.ID][]*operation // those of each instance that are over, the oldest first
	loaded chan struct{}
}

type operationKey struct{ tenant, id string }

// operation is one that is kept, under way or over.
type operation struct {
	key      operationKey
	instance identity.ID
	wake     chan struct{}
	tried    chan struct{} // closed when its first write has ended, well or not

	mu     sync.Mutex
	rec    layout.OperationRecord
	etag   string    // empty: it is not stored yet, or that is not known
	failed error     // why the first write has failed; nil: it has not
	barred power.Bar // why nothing of it may begin any more
}

func newOperation(rec layout.OperationRecord, etag string) *operation {
	return &operation{
		key: operationKey{rec.Tenant, rec.ID}, instance: rec.InstanceID, rec: rec, etag: etag,
		wake: make(chan struct{}, 1), tried: make(chan struct{}),
	}
}

// NewOperations returns operations of which none is known yet; see [Operations.Run]. Effects end
// with ctx, which proves the lease.
func NewOperations(ctx context.Context, opts OperationOptions) *Operations {
	return &Operations{
		opts: opts, ctx: ctx, loaded: make(chan struct{}),
		all: map[operationKey]*operation{}, busy: map[identity.ID]*operation{}, ended: map[identity.ID][]*operation{},
	}
}

// OperationRequest asks for an operation.
type OperationRequest struct {
	ID       string // made by the caller; the same one again is the same operation
	Name     power.Name
	Params   map[string]string
	Deadline time.Time // zero: the default of its name
}

// timeouts are the defaults of operations.
var timeouts = map[power.Name]time.Duration{power.On: 10 * time.Minute, power.Off: 10 * time.Minute, power.Cycle: 15 * time.Minute}

// Start begins an operation on an instance of the caller's tenant, and returns it once that is
// durable. A repeat returns what has become of the operation.
//
// Where storage does not say whether it became durable, the answer is an error, and the operation
// may have begun: who does not repeat the call cancels it.
func (o *Operations) Start(ctx context.Context, in cache.Instance, req OperationRequest) (layout.OperationRecord, error) {
	now := layout.At(o.opts.Now()).Time
	if err := checkOperation(req, now); err != nil {
		return layout.OperationRecord{}, o.answer("start", err)
	}
	if err := o.wait(ctx); err != nil {
		return layout.OperationRecord{}, o.answer("start", err)
	}
	deadline := req.Deadline
	if deadline.IsZero() {
		deadline = now.Add(timeouts[req.Name])
	}
	if in.Hold.Until.Before(deadline) {
		deadline = in.Hold.Until
	}
	op := newOperation(layout.OperationRecord{
		ID: req.ID, Tenant: in.Group.Tenant, InstanceID: in.ID, Name: string(req.Name), Params: maps.Clone(req.Params),
		State: string(power.InProgress), At: layout.At(now), Deadline: layout.At(deadline),
		Marks: marksOf(power.Set(nil, power.Intent, "", now)),
	}, "")
	known, err := o.enter(op, in, req, now)
	if err != nil {
		return layout.OperationRecord{}, o.answer("start", err)
	}
	if known != nil {
		err = o.durable(ctx, known)
		return known.record(), o.answer("start", err)
	}
	if err = o.create(op); err != nil {
		return layout.OperationRecord{}, o.answer("start", err)
	}
	o.opts.Log.InfoContext(ctx, "operation started", "operation", op.key.id, "name", string(req.Name), "instance", in.ID, "tenant", in.Group.Tenant,
		"group", in.Group.Name, "deadline", deadline, "reason", "its operator has asked for it")
	return op.record(), o.answer("start", nil)
}

// enter takes an operation in, or returns the one of the same id.
func (o *Operations) enter(op *operation, in cache.Instance, req OperationRequest, now time.Time) (known *operation, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if known := o.all[op.key]; known != nil {
		if !sameOperation(known.record(), req, in) {
			return nil, operationExists(op.key.id)
		}
		return known, nil
	}
	other := o.busy[in.ID]
	switch {
	case in.State.Leaving() || in.State == fleet.Deleted:
		return nil, refusal.New(refusal.FailedPrecondition, "INSTANCE_LEAVING", "instance %q is to be deleted: nothing more is done to its machine", in.ID)
	case !in.Machine.On:
		return nil, refusal.New(refusal.FailedPrecondition, "NO_NODE_MACHINE", "instance %q has no node machine: its template did not have machine.enabled when it was made", in.ID)
	case !o.opts.Provider.SwitchesPower():
		return nil, refusal.New(refusal.FailedPrecondition, "NO_POWER", "the provider cannot switch machines off and on")
	case other != nil:
		return nil, refusal.New(refusal.FailedPrecondition, "OPERATION_RUNNING", "operation %q of instance %q is not over; wait for it", other.key.id, in.ID)
	case in.Hold.Reason != fleet.HoldPower || !in.Hold.InForce(now):
		return nil, refusal.New(refusal.FailedPrecondition, "NO_HOLD", "instance %q is not on hold for power: call SetHold first, or it would be replaced while it is off", in.ID)
	case in.Hold.Until.Before(now.Add(leastHold)):
		return nil, refusal.New(refusal.FailedPrecondition, "NO_HOLD", "the hold of instance %q ends at %s, in less than %v: call SetHold first, or it would be replaced while it is off",
			in.ID, in.Hold.Until.UTC().Format(time.RFC3339), leastHold)
	}
	o.all[op.key], o.busy[in.ID] = op, op
	return nil, nil
}

func operationExists(id string) error {
	return refusal.New(refusal.AlreadyExists, "OPERATION_EXISTS", "id: operation %q is another one; use a new id", id)
}

// sameOperation reports whether a record is what is asked for.
func sameOperation(rec layout.OperationRecord, req OperationRequest, in cache.Instance) bool {
	return rec.InstanceID == in.ID && rec.Name == string(req.Name) && maps.Equal(rec.Params, req.Params)
}

// Get returns an operation of a tenant.
func (o *Operations) Get(ctx context.Context, tenant, id string) (layout.OperationRecord, error) {
	op, err := o.lookUp(ctx, tenant, id)
	if err == nil {
		err = o.durable(ctx, op)
	}
	if err != nil {
		return layout.OperationRecord{}, o.answer("get", err)
	}
	return op.record(), o.answer("get", nil)
}

// Cancel cancels an operation. One of which something was sent goes on;
// one that is over stays so. It is to be repeated until the operation is over: a change of
// leader may forget it.
func (o *Operations) Cancel(ctx context.Context, tenant, id string) (layout.OperationRecord, error) {
	op, err := o.lookUp(ctx, tenant, id)
	if err != nil {
		return layout.OperationRecord{}, o.answer("cancel", err)
	}
	if rec := op.record(); rec.State == string(power.InProgress) && op.bar(power.Bar{Reason: power.Cancelled, Message: "it was cancelled before anything was sent"}) {
		op.signal()
		o.opts.Log.InfoContext(ctx, "operation cancelled", "operation", id, "name", rec.Name, "instance", rec.InstanceID, "tenant", tenant, "reason", "its operator has asked for it")
	}
	err = o.durable(ctx, op)
	return op.record(), o.answer("cancel", err)
}

// Running returns the operation of an instance that is not over, and its deadline; empty: there is
// none.
func (o *Operations) Running(ctx context.Context, id identity.ID) (operation string, deadline time.Time, err error) {
	if err := o.wait(ctx); err != nil {
		return "", time.Time{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.busy[id]
	if op == nil {
		return "", time.Time{}, nil
	}
	if rec := op.record(); rec.State == string(power.InProgress) { // else it is over, and about to leave
		return rec.ID, rec.Deadline.Time, nil
	}
	return "", time.Time{}, nil
}

func (o *Operations) lookUp(ctx context.Context, tenant, id string) (*operation, error) {
	if err := o.wait(ctx); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if op := o.all[operationKey{tenant, id}]; op != nil {
		return op, nil
	}
	return nil, refusal.New(refusal.NotFound, "NOT_FOUND", "operation %q not found", id)
}

// wait waits until all operations have been read.
func (o *Operations) wait(ctx context.Context) error {
	select {
	case <-o.loaded:
		return nil
	case <-o.ctx.Done():
		return refusal.ErrTermOver
	case <-ctx.Done():
		return ctx.Err()
	}
}

// record returns the operation as it is now.
func (op *operation) record() layout.OperationRecord {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.rec
}

// bar says that nothing of the operation may begin any more, and reports whether that is news.
func (op *operation) bar(why power.Bar) (news bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if news = op.barred == (power.Bar{}); news {
		op.barred = why
	}
	return news
}

// stored reports whether the operation stands in storage.
func (op *operation) stored() bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.etag != ""
}

func (op *operation) signal() {
	select {
	case op.wake <- struct{}{}:
	default:
	}
}

// answer counts a call, and says why it was not carried out.
func (o *Operations) answer(call string, err error) error {
	var already *refusal.Error
	switch {
	case err == nil:
		o.opts.Metrics.operated(call, "done")
	case errors.As(err, &already), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		o.opts.Metrics.operated(call, "refused")
	default:
		o.opts.Metrics.operated(call, "failed")
		o.opts.Over(err)
		return refusal.Storage(err, layout.ErrUnreadable, layout.ErrNewer, objectstore.ErrNotFound)
	}
	return err
}
