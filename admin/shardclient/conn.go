package shardclient

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	nstancev1 "nstance.dev/protos/nstance/v1"

	"nstance.dev/protos/identity"
)

// Options are the settings of a [Conn]; zero fields take the defaults.
type Options struct {
	// Patience is how long a call is repeated while no server serves it; 30s. An
	// attempt that lasted longer, as a stream's may, starts it anew.
	Patience       time.Duration
	ConnectTimeout time.Duration    // of one connection to one address; 3s
	CallTimeout    time.Duration    // of one attempt of a call that is no stream; 10s
	MaxPause       time.Duration    // the longest pause between rounds; 2s
	Now            func() time.Time // time.Now
	// DialContext makes connections; nil means TCP.
	DialContext func(ctx context.Context, address string) (net.Conn, error)
}

func (o Options) withDefaults() Options {
	o.Patience = orDefault(o.Patience, 30*time.Second)
	o.ConnectTimeout = orDefault(o.ConnectTimeout, 3*time.Second)
	o.CallTimeout = orDefault(o.CallTimeout, 10*time.Second)
	o.MaxPause = orDefault(o.MaxPause, 2*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.DialContext == nil {
		o.DialContext = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	return o
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// Conn is a connection to whichever server leads a shard. It is safe for
// concurrent use, and connects with the first call.
type Conn struct {
	target   Target
	identity *Identity
	opts     Options

	mu    sync.Mutex
	links map[string]*link
	good  string // the address that served last
}

var _ grpc.ClientConnInterface = (*Conn)(nil)

// Dial returns a connection to a shard, which must be closed.
func Dial(target Target, id *Identity, opts Options) *Conn {
	return &Conn{target: target, identity: id, opts: opts.withDefaults(), links: map[string]*link{}}
}

// Target returns the shard and where its servers are looked for.
func (c *Conn) Target() Target { return c.target }

// Identity returns whose calls these are.
func (c *Conn) Identity() *Identity { return c.identity }

// Leader returns the address that answered last; empty: none has.
func (c *Conn) Leader() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.good
}

// Close ends all calls and connections.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, l := range c.links {
		errs = append(errs, l.cc.Close())
	}
	clear(c.links)
	return errors.Join(errs...)
}

// Invoke implements grpc.ClientConnInterface.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.try(ctx, repeatable(args), func(cc *grpc.ClientConn) (metadata.MD, error) {
		attempt, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
		defer cancel()
		var trailer metadata.MD
		err := cc.Invoke(attempt, method, args, reply, append(slices.Clone(opts), grpc.Trailer(&trailer))...)
		if status.Code(err) == codes.DeadlineExceeded && ctx.Err() == nil {
			err = status.Errorf(codes.Unavailable, "no answer after %v", c.opts.CallTimeout)
		}
		return trailer, err
	})
}

// repeatable reports whether a request may arrive twice. Only the creation of an
// instance without an id would do its work twice.
func repeatable(args any) bool {
	r, ok := args.(*nstancev1.CreateInstanceRequest)
	return !ok || r.InstanceId != nil
}

// try carries out call at one address after the other, round after round, until
// a server serves it, refuses it, or patience ends.
func (c *Conn) try(ctx context.Context, repeatable bool, call func(*grpc.ClientConn) (metadata.MD, error)) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier = 100*time.Millisecond, c.opts.MaxPause, 2
	start := c.opts.Now()
	failed := &UnavailableError{Shard: c.target.Shard}
	for {
		began := c.opts.Now()
		done, err := c.round(ctx, repeatable, failed, call)
		if done {
			return err
		}
		if c.opts.Now().Sub(began) > c.opts.Patience {
			start = c.opts.Now()
			pauses.Reset()
		}
		pause := pauses.NextBackOff()
		if c.opts.Now().Add(pause).Sub(start) > c.opts.Patience {
			return failed
		}
		select {
		case <-ctx.Done():
			failed.Err = ctx.Err()
			return failed
		case <-time.After(pause):
		}
	}
}

// round tries each address once. It reports done where repeating is of no use.
func (c *Conn) round(ctx context.Context, repeatable bool, failed *UnavailableError, call func(*grpc.ClientConn) (metadata.MD, error)) (done bool, err error) {
	queue := c.addresses(failed)
	var tried []string
	hopeless := len(queue) > 0
	for len(queue) > 0 {
		address := queue[0]
		queue = queue[1:]
		if slices.Contains(tried, address) {
			continue
		}
		tried = append(tried, address)
		l, err := c.link(ctx, address)
		if err != nil {
			failed.note(address, err)
			hopeless = hopeless && errors.Is(err, ErrHandshake)
			continue
		}
		trailer, err := call(l.cc)
		if ctx.Err() != nil && err != nil {
			failed.note(address, errors.New("no answer in time"))
			failed.Err, failed.Unknown = ctx.Err(), !repeatable
			return true, failed
		}
		if status.Code(err) != codes.Unavailable {
			c.remember(address)
			return true, err
		}
		failed.note(address, err)
		hopeless = false
		leader, standby := leaderOf(trailer)
		if leader != "" {
			queue = append([]string{leader}, queue...)
		}
		if !standby && !repeatable {
			failed.Unknown = true
			return true, failed
		}
	}
	return hopeless, failed
}

// leaderOf reads a standby's pointer, whose presence also says that the call has
// had no effect. The address is empty where the standby knows of no leader.
func leaderOf(trailer metadata.MD) (address string, standby bool) {
	values := trailer.Get(identity.LeaderTrailer)
	if len(values) == 0 {
		return "", false
	}
	if checkAddress(values[0]) != nil {
		return "", true
	}
	return values[0], true
}

// addresses lists where to look for the leader, the likeliest place first.
func (c *Conn) addresses(failed *UnavailableError) []string {
	var all []string
	if c.target.LeaderFile != "" {
		address, err := readLeaderFile(c.target.LeaderFile)
		if err == nil {
			all = append(all, address)
		} else if len(c.target.Addresses) == 0 {
			failed.Err = err
		}
	}
	c.mu.Lock()
	if c.good != "" {
		all = append(all, c.good)
	}
	c.mu.Unlock()
	return append(all, c.target.Addresses...)
}

func (c *Conn) remember(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.good = address
}

// link returns a connection to address that is up.
func (c *Conn) link(ctx context.Context, address string) (*link, error) {
	c.mu.Lock()
	l := c.links[address]
	c.mu.Unlock()
	if l == nil {
		var err error
		if l, err = newLink(address, c.identity.tlsConfig(c.target.Shard), c.opts.DialContext); err != nil {
			return nil, err
		}
	}
	if err := l.connect(ctx, c.opts.ConnectTimeout); err != nil {
		c.drop(address, l)
		return nil, err
	}
	return c.keep(address, l), nil
}

// keep stores a link that is up, unless another call was faster.
func (c *Conn) keep(address string, l *link) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.links[address]; other != nil && other != l {
		_ = l.cc.Close()
		return other
	}
	c.links[address] = l
	return l
}

// drop forgets a link that is down: the next attempt connects at once, where the
// old one would wait out its own pause.
func (c *Conn) drop(address string, l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.links[address] == l {
		delete(c.links, address)
	}
	_ = l.cc.Close()
}
