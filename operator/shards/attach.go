package shards

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc"
)

// Conn is a connection of its own to the leader of a shard. Whoever opened it closes it. It
// does not change the status of its shard.
type Conn struct {
	*grpc.ClientConn

	Address string // where the leader was found
	why     *Cause
}

// Cause returns err, of a call on the connection, with what its handshake ended with.
func (c *Conn) Cause(err error) error { return c.why.Of(err) }

// Open finds the leader of the shard as the shard itself does, and returns a connection to
// it: for what must not stand in the way of calls and streams, nor break with them.
func (s *Shard) Open(ctx context.Context, more ...grpc.DialOption) (*Conn, error) {
	c, err := s.connect(ctx, more...)
	if err != nil {
		return nil, err
	}
	return &Conn{c.cc, c.address, c.why}, nil
}

// attachment is what runs beside each shard: start starts it beside one, whose context is
// given.
type attachment struct {
	start func(ctx context.Context, m *member)
}

// Attach runs f for each shard of the set, beside its own loops: for those that are in it and
// for those that come, each until the shard leaves the set or ctx ends. It returns the reason
// of ctx once every f has returned.
func (s *Set) Attach(ctx context.Context, f func(ctx context.Context, shard *Shard)) error {
	var running sync.WaitGroup
	a := &attachment{func(beside context.Context, m *member) {
		beside, end := context.WithCancel(beside)
		stop := context.AfterFunc(ctx, end)
		running.Add(1)
		m.beside.Go(func() {
			defer running.Done()
			defer end()
			defer stop()
			f(beside, m.shard)
		})
	}}
	s.mu.Lock()
	s.attached = append(s.attached, a)
	for _, m := range s.members {
		m.attach(a)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.attached = slices.DeleteFunc(s.attached, func(other *attachment) bool { return other == a })
	s.mu.Unlock() // from now on nothing more is started
	running.Wait()
	return context.Cause(ctx)
}
