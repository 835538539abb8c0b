package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/driver"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/pki"
	"nstance.dev/server/shard"
)

// The lease of the simulated shard, and how long before its end a leader stops.
const (
	leaseTime   = 15 * time.Second
	leaseMargin = 3 * time.Second
)

// box is the machine of one server, on which one process after another runs. What
// a cache directory keeps between two of them is the term of the lock.
type box struct {
	w    *world
	name string

	mu     sync.Mutex
	proc   *process         // nil while none runs
	runs   int              // processes so far
	term   uint64           // in its cache directory; 0: lost
	noted  []lease.Document // there as well: the versions of the lock that its process was about to store
	skewed time.Duration
}

// process is one server process. Whatever it does to the world goes through
// [process.may], which a process that was stopped or killed does not pass.
type process struct {
	box     *box
	shard   *shard.Shard
	elector *lease.Elector
	door    *door              // nil: no guest comes
	cancel  context.CancelFunc // ends it in order
	killed  chan struct{}      // closed when it was killed
	echoes  atomic.Bool        // what it had sent by then arrives later
	done    chan struct{}      // closed when nothing of it runs any more

	mu      sync.Mutex
	frozen  time.Time         // since when it is stopped; zero: it runs
	again   chan struct{}     // closed when it goes on
	renewed time.Time         // when its last accepted write of the lock was sent
	looked  time.Time         // when it last looked at the clock of its lease
	leads   time.Time         // since when it leads, if it does
	meters  map[string]*meter // of its calls, by bucket, since it leads or goes on
	takes   []taken           // the versions of the configuration file, in order
	unsure  [][2]time.Time    // when it did not know what stood in the group file, in order; the last may go on
}

// taken is a version of the configuration file that a process has put in force.
type taken struct {
	at     time.Time
	edited time.Time
}

// took notes that a process has put a version of the configuration file in force.
func (p *process) took(static config.Version) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.takes = append(p.takes, taken{time.Now(), static.Modified})
}

// writes notes that a process sends a write of the group file, and knows that it has heard
// what stands there.
func (p *process) writes() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.unsure); n == 0 || !p.unsure[n-1][1].IsZero() {
		p.unsure = append(p.unsure, [2]time.Time{time.Now(), {}})
	}
}

func (p *process) knows() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.unsure); n > 0 && p.unsure[n-1][1].IsZero() {
		p.unsure[n-1][1] = time.Now()
	}
}

// knewSince is the moment from which on sizes may be what a process went by at another:
// an earlier one, if a newer version of the configuration file was not in force there by
// then. Such a version has to be durable first, which takes as long as storage takes. Nor
// does it know a size whose write it has not had the answer to.
func (w *world) knewSince(p *process, at time.Time) time.Time {
	p.mu.Lock()
	for _, u := range p.unsure {
		if !at.Before(u[0]) && (u[1].IsZero() || at.Before(u[1])) {
			at = u[0].Add(-time.Nanosecond)
		}
	}
	var edited time.Time
	for _, t := range p.takes {
		if !t.at.After(at) || edited.IsZero() {
			edited = t.edited
		}
	}
	p.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, next := range w.config.edits {
		if next.After(edited) {
			return earlier(at, next)
		}
	}
	return at
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// start starts a process, unless one runs.
func (b *box) start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.proc != nil {
		return
	}
	b.runs++
	ctx, cancel := context.WithCancel(b.w.ctx)
	p := &process{box: b, cancel: cancel, killed: make(chan struct{}), done: make(chan struct{})}
	c, err := cache.Open(ctx, os.DevNull+"/none", cache.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err) // only an ended context does that
	}
	log := b.w.logger.With("server", b.name)
	var who shard.Drainers = drainers{b.w}
	if b.w.guested(identity.DefaultTenant) {
		p.door = newDoor(p)
		who = p.door.registry
	}
	static := b.w.static()
	p.shard = shard.New(shard.Options{
		Cluster: cluster, Shard: shardName, Version: "sim",
		Store: storeLink{b.w.store, p}, Driver: cloudLink{b.w.cloud, p}, Cache: c,
		Drainers:  who,
		Keys:      func() *pki.Keys { return b.w.keys },
		Addresses: func() driver.Addresses { return driver.Addresses{} },
		Log:       log, Now: b.now, NewID: b.w.newID,
		Jitter: b.w.jitter,
	}, static)
	p.took(static)
	p.elector, err = lease.New(storeLink{b.w.store, p}, layout.LeaderKey(shardName), lease.Options{
		ID: b.name, LeaderAddr: b.name, Lease: leaseTime, Log: log, Now: b.now, Elapsed: p.elapsed,
		Ask: p.ask, MinTerm: p.minTerm, NothingStored: p.fresh, Reclaim: b.reclaim,
		OnWrite: b.note, OnAcquire: p.lead, OnFollow: func(lease.Document) { p.shard.EndParked() },
	})
	if err != nil {
		panic(err) // the options are ours
	}
	b.proc = p
	if p.door != nil {
		p.door.open()
	}
	go func() {
		defer close(p.done)
		if err := p.elector.Run(ctx); err != nil {
			b.w.violate("F8", "%s: the elector ended: %v", b.name, err)
		}
		p.shard.EndParked()
		if p.door != nil {
			p.door.close()
		}
		_ = c.Close() // it lives in memory
	}()
	b.w.logf("%s starts", b.name)
}

// lead leads as package serve does.
func (p *process) lead(ctx context.Context, term uint64) {
	p.box.mu.Lock()
	p.box.term = term
	p.box.mu.Unlock()
	p.mu.Lock()
	p.leads, p.meters = time.Now(), nil
	p.mu.Unlock()
	p.box.w.logf("%s leads, term %d", p.box.name, term)
	static := p.box.w.static()
	if err := p.shard.Apply(ctx, static); err != nil {
		p.box.w.logger.Warn("configuration not applied", "server", p.box.name, "error", err)
	} else {
		p.took(static)
	}
	if err := p.shard.Lead(ctx, term); err != nil {
		p.box.w.logger.Error("leading ended", "server", p.box.name, "error", err)
		if superseded := (*lease.SupersededError)(nil); errors.As(err, &superseded) {
			p.elector.Outranked(superseded.Term)
		}
		<-ctx.Done()
	}
}

// reclaim answers from the cache directory, whose file lock a process holds.
func (b *box) reclaim() (uint64, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.term, b.term > 0
}

// now is the wall clock of the box.
func (b *box) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Add(b.skewed)
}

// running is the process that runs on the box, or nil.
func (b *box) running() *process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.proc
}

// kill ends the process at once. Calls under way have their effect or not, and
// nobody hears of it. Keep says whether the cache directory survives.
func (b *box) kill(keep bool) {
	p := b.remove(keep)
	if p == nil {
		return
	}
	b.w.logf("%s is killed", b.name)
	close(p.killed)
	p.cancel()
	b.w.await(p)
}

// stop ends the process in order.
func (b *box) stop() {
	p := b.remove(true)
	if p == nil {
		return
	}
	b.w.logf("%s stops", b.name)
	p.thaw()
	p.cancel()
	b.w.await(p)
}

func (b *box) remove(keep bool) *process {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.proc
	b.proc = nil
	if !keep {
		b.term, b.noted = 0, nil
	}
	return p
}

// freeze stops the process as SIGSTOP does: the clock of its lease stands still
// for it, and nothing of it leaves or arrives until it is thawed.
func (p *process) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen.IsZero() {
		p.frozen, p.again = time.Now(), make(chan struct{})
	}
}

func (p *process) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.frozen.IsZero() {
		p.frozen, p.meters = time.Time{}, nil // what waited goes out at once
		close(p.again)
	}
}

// elapsed is the clock of its lease.
func (p *process) elapsed() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked = time.Now()
	if !p.frozen.IsZero() {
		return p.frozen.Sub(p.box.w.start)
	}
	return time.Since(p.box.w.start)
}

// may waits while the process is stopped. It returns an error once the process
// has been killed, or ctx has ended.
//
// Code of a stopped process runs on to its next call here, where in truth it
// would have stood still and looked at its lease afterwards. So the look is
// repeated after a wait. Those who wait go on one after another, each at a moment that its
// words name: else their order would be that of goroutines.
func (p *process) may(ctx context.Context, words ...any) error {
	waited := false
	for {
		p.mu.Lock()
		frozen, again := !p.frozen.IsZero(), p.again
		p.mu.Unlock()
		select {
		case <-p.killed:
			return fmt.Errorf("%w: killed", context.Canceled)
		default:
		}
		if _, leads := lease.Term(ctx); !frozen && waited && leads {
			if err := lease.Check(ctx); err != nil {
				return err
			}
		}
		if !frozen {
			return ctx.Err()
		}
		waited = true
		select {
		case <-again:
			_ = pause(p.box.w.ctx, p.box.w.dice.between(0, time.Millisecond, append(words, "goes on")...))
		case <-p.killed:
		}
	}
}

// dead reports whether the process was killed.
func (p *process) dead() bool {
	select {
	case <-p.killed:
		return true
	default:
		return false
	}
}

// stuck reports whether the process is killed or stopped, so that nothing that is
// sent to it has an effect.
func (p *process) stuck() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.frozen.IsZero() || p.dead()
}

// looksNow reports whether the process has looked at its lease at this very moment.
func (p *process) looksNow() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.looked.Equal(time.Now())
}

// leadsSince is since when the process leads, or last led.
func (p *process) leadsSince() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leads
}

// leaseAge is how old the proof is on which the process may act.
func (p *process) leaseAge() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.renewed)
}

// ask asks the server at addr whether it leads, over the network.
func (p *process) ask(ctx context.Context, addr string) (lease.Document, error) {
	me, there := p.box.name, p.box.w.boxes[addr]
	if there == nil || p.box.w.net.cut(me, addr) || p.box.w.net.cut(addr, me) {
		<-ctx.Done()
		return lease.Document{}, ctx.Err()
	}
	if err := pause(ctx, p.box.w.net.delay(me+" asks "+addr)); err != nil {
		return lease.Document{}, err
	}
	other := there.running()
	if other == nil {
		return lease.Document{}, fmt.Errorf("%s: connection refused", addr)
	}
	if other.stuck() {
		<-ctx.Done()
		return lease.Document{}, ctx.Err()
	}
	doc, held := other.elector.Held()
	if !held {
		return doc, fmt.Errorf("%s does not lead", addr)
	}
	return doc, p.may(ctx)
}

// minTerm is the highest of the terms in the group file and in the cache directory.
func (p *process) minTerm(ctx context.Context) (uint64, error) {
	own, _ := p.box.reclaim()
	obj, err := storeLink{p.box.w.store, p}.Get(ctx, layout.GroupsKey(shardName))
	if isAbsent(err) {
		return own, nil
	}
	if err != nil {
		return 0, err
	}
	file, err := groupfile.Decode(obj.Key, obj.Data)
	if err != nil {
		return own, nil //nolint:nilerr // as package serve: it is in quarantine
	}
	return max(own, uint64(file.Term)), nil
}

// fresh reports whether the shard never had an instance.
func (p *process) fresh(ctx context.Context) (bool, error) {
	for _, prefix := range []string{layout.InstancePrefix(shardName), layout.SnapshotPrefix(shardName)} {
		page, err := storeLink{p.box.w.store, p}.List(ctx, prefix, "", 1)
		if err != nil || len(page.Objects) > 0 {
			return false, err
		}
	}
	return true, nil
}
