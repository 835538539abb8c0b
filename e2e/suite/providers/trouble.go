package providers

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// Trouble is something that goes wrong with a cloud for a while.
type Trouble struct {
	// Calls is what goes wrong with calls; nil: nothing. It is asked for each time that
	// the trouble begins.
	Calls func() wire.Faults
	// Needs are the calls of which one each has to go wrong before it is over.
	Needs []string

	Begin, End func() // what happens to the cloud itself; nil: nothing
	Costs      bool   // machines that did not crash, too

	// Felt returns nil when it has gone on for long enough; a nil Felt: at once.
	Felt func() error
}

// Kinds are all kinds of trouble, in the order in which a shard gets into them. The
// table in docs/testing.md says what each is, and which cloud cannot have it.
var Kinds = []string{
	"throttled", "quota", "invalid", "missing", "auth", "transient", "late-error", "lost-answer", "slow-call",
	"late-answer", "stale-listing", "broken-page", "stillborn", "capacity", "number-taken", "notice", "stranger",
	"empty-listing", "by-hand", "slow-delete", "node-away",
}

// Never are the kinds that a cloud cannot have, and why, by its name.
var Never = map[string]map[string]string{
	"AWS": {
		"node-away":    "its hosts are its own affair",
		"number-taken": "it gives the ids itself",
	},
	"Google": {
		"node-away":    "its hosts are its own affair",
		"number-taken": "machines have names, of which none comes twice",
	},
	"Proxmox": {
		"broken-page": "its listings have one page",
		"notice":      "it takes nothing away",
	},
}

// The calls that troubles of all clouds are about.
type calls struct {
	create, remove, list string

	// share of the calls that go wrong at random, beside one of each of those that are
	// needed.
	share float64
}

// longerThanPatience is more than the time-out of a server's calls.
const longerThanPatience = patienceOfServers + 2*time.Second

// troubles are those that all clouds have: calls that go wrong, machines that do not come
// up, and listings that are behind.
func (c calls) troubles(h *hosts, gate *wire.Gate, lag func(behind bool)) map[string]Trouble {
	all := c.refusals()
	all["stillborn"] = h.births()
	all["stale-listing"] = c.during(gate, 2*staleness, func() { lag(true) }, func() { lag(false) })
	return all
}

// refusals are those that only take calls that go wrong.
func (c calls) refusals() map[string]Trouble {
	some := func(f wire.Fault) Trouble {
		return Trouble{Needs: []string{c.create, c.remove}, Calls: func() wire.Faults {
			return wire.Any(wire.Times(1, c.create, f), wire.Times(1, c.remove, f), wire.Random(1, c.share, f))
		}}
	}
	creates := func(kind driver.ErrorClass) Trouble {
		return Trouble{Needs: []string{c.create}, Calls: func() wire.Faults { return wire.Always(c.create, wire.Fault{Kind: kind}) }}
	}
	return map[string]Trouble{
		"throttled":   some(wire.Fault{Kind: driver.Throttled}),
		"transient":   some(wire.Fault{Kind: driver.Transient}),
		"late-error":  some(wire.Fault{Kind: driver.Ambiguous, After: true}),
		"lost-answer": some(wire.Fault{Lost: true}),
		"slow-call":   some(wire.Fault{Delay: 2 * time.Second}),
		"late-answer": {Needs: []string{c.create, c.remove}, Calls: func() wire.Faults {
			late := wire.Fault{Linger: longerThanPatience}
			return wire.Any(wire.Times(1, c.create, late), wire.Times(1, c.remove, late))
		}},
		"quota":   creates(driver.Quota),
		"invalid": creates(driver.Invalid),
		"missing": creates(driver.MissingRef),
		"auth": {Needs: []string{c.list}, Calls: func() wire.Faults {
			return wire.Always("", wire.Fault{Kind: driver.Auth})
		}},
		// A group may be made of three types, and two are refused.
		"capacity": {Needs: []string{c.create}, Calls: func() wire.Faults {
			return wire.Times(2, c.create, wire.Fault{Kind: driver.Capacity})
		}},
	}
}

// brokenPages has every other listing, or every other page of one, fail.
func (c calls) brokenPages() Trouble {
	return Trouble{Needs: []string{c.list}, Calls: func() wire.Faults {
		var mu sync.Mutex
		n := 0
		return wire.Only(func(call wire.Call) bool {
			mu.Lock()
			defer mu.Unlock()
			if call.Op == c.list {
				n++
			}
			return call.Op == c.list && n%2 == 0
		}, wire.Always(c.list, wire.Fault{Kind: driver.Transient}))
	}}
}

// during is a trouble of the cloud itself that lasts for a time, and until there were
// three listings.
func (c calls) during(gate *wire.Gate, least time.Duration, begin, end func()) Trouble {
	var listings int
	var began time.Time
	return Trouble{
		Begin: func() { begin(); listings, began = gate.Count(c.list)+3, time.Now() },
		Felt: func() error {
			if left := listings - gate.Count(c.list); left > 0 {
				return fmt.Errorf("%d more listings are to come", left)
			}
			if left := least - time.Since(began); left > 0 {
				return fmt.Errorf("%v more are to pass", left)
			}
			return nil
		},
		End: end,
	}
}

// hits counts the calls that have gone wrong, by op.
type hits struct {
	mu sync.Mutex
	by map[string]int
}

// of counts what faults do.
func (h *hits) of(faults wire.Faults) wire.Faults {
	return func(c wire.Call) wire.Fault {
		f := faults(c)
		if f != (wire.Fault{}) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.by[c.Op]++
		}
		return f
	}
}

// missed returns those ops of which no call has gone wrong.
func (h *hits) missed(ops []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(ops), func(op string) bool { return h.by[op] > 0 })
}

// Endure has two machines crash while something is wrong: others have to be made, and
// these deleted. It waits until the shard has what it should when that is over (S4, S5),
// and checks that the rest are those that there were, unless the trouble has cost some.
func (w *World) Endure(kind string) {
	w.t.Helper()
	trouble, before, hit := w.Troubles[kind], w.Reached(w.size), &hits{by: map[string]int{}}
	if trouble.Calls != nil {
		w.Gate.SetFaults(hit.of(trouble.Calls()))
	}
	if trouble.Begin != nil {
		trouble.Begin()
	}
	rest, crash := before[:len(before)-2], before[len(before)-2:] // the youngest
	for _, id := range crash {
		w.Kill(identity.ID(id))
	}
	w.Await(kind+" is felt", func() error {
		if missed := hit.missed(trouble.Needs); len(missed) > 0 {
			return fmt.Errorf("no call of %v has gone wrong", missed)
		}
		if trouble.Felt != nil {
			return trouble.Felt()
		}
		return nil
	})
	w.Gate.SetFaults(nil)
	if trouble.End != nil {
		trouble.End()
	}
	after := w.Reached(w.size)
	for _, id := range rest {
		if !trouble.Costs && !slices.Contains(after, id) {
			w.t.Errorf("%s: of %v only %v were to be replaced, and there are %v", kind, before, crash, after)
		}
	}
}
