package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// Names of the ends of connections, besides those of servers and machines.
const (
	theStore     = "store"
	theCloud     = "cloud"
	theAgents    = "agents"
	theOperators = "operators"
)

// patience is how long a connection that leads nowhere takes to fail.
const patience = 3 * time.Second

// storeLink is the store as one process reaches it.
type storeLink struct {
	of *memory.Store
	by *process
}

func (s storeLink) Get(ctx context.Context, key string) (objectstore.Object, error) {
	return storeCall(ctx, s, memory.OpGet, key, nil, func(ctx context.Context) (objectstore.Object, error) { return s.of.Get(ctx, key) })
}

func (s storeLink) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	return storeCall(ctx, s, memory.OpPut, key, data, func(ctx context.Context) (string, error) { return s.of.PutIfAbsent(ctx, key, data) })
}

func (s storeLink) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error) {
	return storeCall(ctx, s, memory.OpPut, key, data, func(ctx context.Context) (string, error) { return s.of.PutIfMatch(ctx, key, data, etag) })
}

func (s storeLink) DeleteIfMatch(ctx context.Context, key, etag string) error {
	_, err := storeCall(ctx, s, memory.OpDelete, key, nil, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.of.DeleteIfMatch(ctx, key, etag)
	})
	return err
}

func (s storeLink) List(ctx context.Context, prefix, token string, limit int) (objectstore.Page, error) {
	return storeCall(ctx, s, memory.OpList, prefix, nil, func(ctx context.Context) (objectstore.Page, error) { return s.of.List(ctx, prefix, token, limit) })
}

// storeCall makes one call of the store, with whatever goes wrong on the way. Data is
// what a write is to leave.
func storeCall[T any](ctx context.Context, s storeLink, op memory.Op, key string, data []byte, effect func(context.Context) (T, error)) (T, error) {
	var none T
	w, p := s.by.box.w, s.by
	if err := p.may(ctx, op, key); err != nil {
		return none, err
	}
	sent := time.Now()
	on := way{by: p, sent: sent, decided: w.truth.decided(p, key, data)}
	if (op == memory.OpPut || op == memory.OpDelete) && key != layout.LeaderKey(shardName) {
		w.checkLease(p, "write of "+key)
		w.truth.intends(p, key)
	}
	if op == memory.OpPut && key == layout.GroupsKey(shardName) {
		p.writes()
	}
	f := w.weather.store(p.box.name, op, key)
	w.event("%s to the store: %s %s: %+v", p.box.name, op, key, f)
	if w.net.cut(p.box.name, theStore) {
		return none, errors.Join(objectstore.ErrUnavailable, pause(ctx, patience))
	}
	if err := pause(ctx, f.Latency); err != nil {
		p.echo(fmt.Sprintf("%s %s", op, key), func() {
			on.lost = true
			w.truth.lands(key, on)
			_, _ = effect(context.Background())
		})
		return none, errors.Join(objectstore.ErrUnavailable, err)
	}
	if f.Before != nil {
		return none, errors.Join(f.Before, p.may(ctx, op, key, "answer"))
	}
	if f.Late > 0 {
		time.AfterFunc(f.Late, func() { // nobody is left to tell
			on.lost = true
			w.truth.lands(key, on)
			if _, err := effect(context.Background()); err == nil {
				p.proved(op, key, sent)
			}
		})
		return none, errors.Join(objectstore.ErrUnavailable, pause(ctx, patience))
	}
	w.truth.lands(key, on)
	v, err := effect(ctx)
	if err == nil {
		p.proved(op, key, sent)
	}
	if slept := pause(ctx, f.Linger); slept != nil {
		return none, errors.Join(objectstore.ErrUnavailable, slept)
	}
	if w.net.cut(theStore, p.box.name) {
		return none, errors.Join(objectstore.ErrUnavailable, pause(ctx, patience))
	}
	if heard := p.may(ctx, op, key, "answer"); heard != nil {
		return none, errors.Join(objectstore.ErrUnavailable, heard)
	}
	if f.After != nil {
		return none, f.After
	}
	if err == nil && key == layout.GroupsKey(shardName) {
		p.knows()
	}
	return v, err
}

// proved notes that the store has accepted a write: one of the lock renews the lease,
// from when it was sent on, whether the process hears of it or finds it later.
func (p *process) proved(op memory.Op, key string, sent time.Time) {
	if op != memory.OpPut || key != layout.LeaderKey(shardName) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if sent.After(p.renewed) {
		p.renewed = sent
	}
}

// cloudLink is the provider as one process reaches it.
type cloudLink struct {
	*drivertest.Cloud
	by *process
}

func (c cloudLink) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	before := c.by.dead()
	m, err := cloudCall(ctx, c, drivertest.OpCreate, req.InstanceID, func(ctx context.Context) (driver.Machine, error) {
		c.by.box.w.checkCreate(c.by, req)
		return c.Cloud.Create(ctx, req)
	})
	if err != nil && !before {
		c.by.echo("create "+req.InstanceID.String(), func() { _, _ = c.Cloud.Create(context.Background(), req) })
	}
	return m, err
}

func (c cloudLink) Delete(ctx context.Context, ref driver.Ref) error {
	_, err := cloudCall(ctx, c, drivertest.OpDelete, ref.InstanceID, func(ctx context.Context) (struct{}, error) {
		c.by.box.w.checkDelete(c.by, ref)
		return struct{}{}, c.Cloud.Delete(ctx, ref)
	})
	return err
}

func (c cloudLink) Get(ctx context.Context, ref driver.Ref) (driver.Machine, error) {
	return cloudCall(ctx, c, drivertest.OpGet, ref.InstanceID, func(ctx context.Context) (driver.Machine, error) { return c.Cloud.Get(ctx, ref) })
}

func (c cloudLink) List(ctx context.Context, owner driver.Owner) ([]driver.Machine, error) {
	return cloudCall(ctx, c, drivertest.OpList, "", func(ctx context.Context) ([]driver.Machine, error) { return c.Cloud.List(ctx, owner) })
}

// cloudCall makes one call of the provider, of a machine or of none. The call itself draws
// its faults.
func cloudCall[T any](ctx context.Context, c cloudLink, op drivertest.Op, of identity.ID, effect func(context.Context) (T, error)) (T, error) {
	var none T
	w, p := c.by.box.w, c.by
	looked, stood := p.looksNow(), p.stuck()
	if err := p.may(ctx, op, of); err != nil {
		return none, driver.Fail(driver.Transient, string(op), err)
	}
	w.event("%s to the cloud: %s", p.box.name, op)
	if changes := op == drivertest.OpCreate || op == drivertest.OpDelete; changes && !looked {
		w.violate("S2", "a %s by %s, which has not looked at its lease right before", op, p.box.name)
	}
	if !stood { // in truth it would have asked for its turn after it went on
		w.checkRate(p, op)
	}
	if w.net.cut(p.box.name, theCloud) {
		return none, driver.Fail(driver.Ambiguous, string(op), errors.Join(errors.New("no route"), pause(ctx, patience)))
	}
	v, err := effect(ctx)
	if w.net.cut(theCloud, p.box.name) {
		return none, driver.Fail(driver.Ambiguous, string(op), errors.Join(errors.New("no answer"), pause(ctx, patience)))
	}
	if heard := p.may(ctx, op, of, "answer"); heard != nil {
		return none, driver.Fail(driver.Ambiguous, string(op), fmt.Errorf("no answer: %w", heard))
	}
	return v, err
}

func isAbsent(err error) bool { return errors.Is(err, objectstore.ErrNotFound) }

// pause waits for d or the end of ctx, which it reports.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
