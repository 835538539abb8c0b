// Package machines makes, starts, finds, lists, switches and ends the machines of a box.
//
// Who looks at a machine carries on what was begun with it: a start that a crash interrupted, or
// its end.
//
// Locks: a machine's lock in the store comes before the mutexes. The mutex of rooms is held while
// a machine is laid out where room is limited; the other one over no call.
package machines

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/local/process"
	"nstance.dev/providers/local/store"
)

// Options are the settings of [Machines]. All but Room and Addresses are required.
type Options struct {
	Store *store.Store
	Agent string // the agent's binary

	// Room is how many machines fit into a subnet, by its name; one that is not
	// here takes any number.
	Room map[string]int
	// Addresses are those of which each machine is said to have one, by its id; zero: none
	// is known.
	Addresses netip.Prefix
	// LeaderFile is told to the machines: the file with the leader's addresses.
	LeaderFile string

	Log *slog.Logger     // hears of trouble in work that nobody waits for
	Now func() time.Time // decides when marks are old enough to be forgotten
}

// addressOf is the address that a machine is said to have; zero without Addresses. Two
// machines may be said to have the same one.
func (o Options) addressOf(id identity.ID) netip.Addr {
	if !o.Addresses.IsValid() {
		return netip.Addr{}
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	host := h.Sum32() & (1<<(32-o.Addresses.Bits()) - 1)
	network := o.Addresses.Addr().As4()
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(network[:])|max(host, 1))))
}

// Machines are those of one directory. Make it with [New] and end it with [Machines.Close].
// Methods are safe for concurrent use.
type Machines struct {
	opts  Options
	store *store.Store
	host  process.Host

	life context.Context //nolint:containedctx // of the work that goes on after a call has returned
	die  context.CancelFunc
	wg   sync.WaitGroup

	placing sync.Mutex // held while a machine is put where room is limited

	mu     sync.Mutex
	closed bool
	ending map[identity.ID]bool
	swept  time.Time
}

// New returns the machines of a store. The caller closes it; machines stay.
func New(opts Options) (*Machines, error) {
	box, err := process.OpenHost()
	if err != nil {
		return nil, err
	}
	all := &Machines{opts: opts, store: opts.Store, host: box, ending: map[identity.ID]bool{}}
	all.life, all.die = context.WithCancel(context.Background())
	all.sweep()
	return all, nil
}

// Close ends the goroutines and waits for them. Machines go on, and
// deletes that were accepted are finished by the next driver that looks.
func (all *Machines) Close() {
	all.mu.Lock()
	all.closed = true
	all.mu.Unlock()
	all.die()
	all.wg.Wait()
}

// background runs work in a goroutine of its own until Close, and reports
// whether it does.
func (all *Machines) background(work func()) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		return false
	}
	all.wg.Go(work)
	return true
}
