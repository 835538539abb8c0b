package shard

import (
	"context"
	"strings"
	"sync"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// moment says where in a call a server dies.
type moment int

const (
	beforeCall  moment = iota // the call is never made
	answerLost                // it takes effect, and nobody hears the answer
	afterAnswer               // its answer is heard, and nothing after it
)

func (m moment) String() string {
	return [...]string{"before the call", "answer lost", "after the answer"}[m]
}

// life is one server process as the outside world sees it: every call that it
// makes of storage and of the cloud has a number, and at one of them it may die.
// From then on it has no effect on anything.
type life struct {
	kill context.CancelFunc // ends the leadership

	mu    sync.Mutex
	calls int
	at    int // dies at this call; 0: lives on
	when  moment
	dead  bool
	seen  func(op memory.Op, key string) // of calls of storage; nil: nobody looks
}

// observe has every call of storage shown from now on.
func (l *life) observe(seen func(op memory.Op, key string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = seen
}

func (l *life) show(op memory.Op, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen != nil {
		l.seen(op, key)
	}
}

// dieAt arms the death at the nth call from now.
func (l *life) dieAt(n int, when moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls, l.at, l.when = 0, n, when
}

func (l *life) died() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (l *life) end() {
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	l.kill()
}

// handsNothingOver reports whether a write is the hand-over of a process that is dead, for
// which nobody waits.
func (l *life) handsNothingOver(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead && strings.HasPrefix(key, "decision/")
}

// call makes a call of the living, and dies in it if its number has come.
func call[T any](ctx context.Context, l *life, do func() (T, error)) (T, error) {
	var none T
	l.mu.Lock()
	l.calls++
	fatal := l.at > 0 && l.calls == l.at && !l.dead
	dead := l.dead || fatal && l.when == beforeCall
	l.mu.Unlock()
	if dead {
		l.end()
		<-ctx.Done()
		return none, ctx.Err()
	}
	v, err := do()
	if fatal {
		l.end()
		if l.when == answerLost {
			<-ctx.Done()
			return none, ctx.Err()
		}
	}
	return v, err
}

// mortalStore is a store as one process reaches it.
type mortalStore struct {
	of   objectstore.Store
	life *life
}

func (s mortalStore) Get(ctx context.Context, key string) (objectstore.Object, error) {
	s.life.show(memory.OpGet, key)
	return call(ctx, s.life, func() (objectstore.Object, error) { return s.of.Get(ctx, key) })
}

func (s mortalStore) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	s.life.show(memory.OpPut, key)
	if s.life.handsNothingOver(key) {
		return "", context.Canceled
	}
	return call(ctx, s.life, func() (string, error) { return s.of.PutIfAbsent(ctx, key, data) })
}

func (s mortalStore) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error) {
	s.life.show(memory.OpPut, key)
	if s.life.handsNothingOver(key) {
		return "", context.Canceled
	}
	return call(ctx, s.life, func() (string, error) { return s.of.PutIfMatch(ctx, key, data, etag) })
}

func (s mortalStore) DeleteIfMatch(ctx context.Context, key, etag string) error {
	s.life.show(memory.OpDelete, key)
	_, err := call(ctx, s.life, func() (struct{}, error) { return struct{}{}, s.of.DeleteIfMatch(ctx, key, etag) })
	return err
}

func (s mortalStore) List(ctx context.Context, prefix, token string, limit int) (objectstore.Page, error) {
	s.life.show(memory.OpList, prefix)
	return call(ctx, s.life, func() (objectstore.Page, error) { return s.of.List(ctx, prefix, token, limit) })
}

// mortalDriver is a cloud as one process reaches it.
type mortalDriver struct {
	driver.Driver
	life *life
}

func (d mortalDriver) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	return call(ctx, d.life, func() (driver.Machine, error) { return d.Driver.Create(ctx, req) })
}

func (d mortalDriver) Get(ctx context.Context, ref driver.Ref) (driver.Machine, error) {
	return call(ctx, d.life, func() (driver.Machine, error) { return d.Driver.Get(ctx, ref) })
}

func (d mortalDriver) List(ctx context.Context, owner driver.Owner) ([]driver.Machine, error) {
	return call(ctx, d.life, func() ([]driver.Machine, error) { return d.Driver.List(ctx, owner) })
}

func (d mortalDriver) Delete(ctx context.Context, ref driver.Ref) error {
	_, err := call(ctx, d.life, func() (struct{}, error) { return struct{}{}, d.Driver.Delete(ctx, ref) })
	return err
}

// ableDriver is the same cloud with what only some clouds can do.
type ableDriver struct {
	mortalDriver
	cloud *drivertest.Cloud
}

func (d ableDriver) CheckSubnet(ctx context.Context, subnetID string) (int, error) {
	return call(ctx, d.life, func() (int, error) { return drivertest.Subnets{Of: d.cloud}.CheckSubnet(ctx, subnetID) })
}

func (d ableDriver) LBRegister(ctx context.Context, lb driver.LoadBalancer, ref driver.Ref) error {
	_, err := call(ctx, d.life, func() (struct{}, error) {
		return struct{}{}, drivertest.Balancers{Of: d.cloud}.LBRegister(ctx, lb, ref)
	})
	return err
}

func (d ableDriver) LBDeregister(ctx context.Context, lb driver.LoadBalancer, ref driver.Ref) error {
	_, err := call(ctx, d.life, func() (struct{}, error) {
		return struct{}{}, drivertest.Balancers{Of: d.cloud}.LBDeregister(ctx, lb, ref)
	})
	return err
}

func (d ableDriver) LBList(ctx context.Context, lb driver.LoadBalancer) ([]driver.Ref, error) {
	return call(ctx, d.life, func() ([]driver.Ref, error) { return drivertest.Balancers{Of: d.cloud}.LBList(ctx, lb) })
}

func (d ableDriver) ResolveImage(ctx context.Context, query driver.ImageQuery) (string, error) {
	return call(ctx, d.life, func() (string, error) { return drivertest.Images{Of: d.cloud}.ResolveImage(ctx, query) })
}
