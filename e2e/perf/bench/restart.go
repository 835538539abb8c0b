package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/vector"
	"nstance.dev/server/demandloop"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/memory"
)

// buying is a configuration with one group, of demand mode.
var buying = strings.NewReplacer(
	`"server": {`, `"server": {"demand": {"prices": [{"instance_types": ["small"], "hour": 0.1}]},`,
	`"groups": {"default": {}}`, `"groups": {"default": {"web-0": {"template": "plain", "mode": "demand", "demand": {}}}}`,
).Replace(configuration)

// listing is a cloud that lists its one type.
type listing struct{ *drivertest.Cloud }

// InstanceTypes implements [driver.TypeCatalog].
func (listing) InstanceTypes(context.Context) ([]driver.InstanceType, error) {
	return []driver.InstanceType{{Name: "small", VCPU: 4, MemoryMiB: 16384, Arch: "amd64"}}, nil
}

// boundMachines is an archive of so many machines, a multiple of 100, of one group of demand mode: bound to a
// cluster, or idle.
func boundMachines(ctx context.Context, machines int, bound bool) (*archive, error) {
	a := &archive{adapt: func(rec *layout.InstanceRecord) {
		rec.Group = groupName(0)
		rec.Purchase = &layout.Purchase{CapacityType: string(demand.OnDemand)}
		if bound {
			rec.Binding = &layout.Binding{
				State: layout.BindingBound, Cluster: tenantName, Price: 100_000, BoundAt: rec.CreatedAt,
				Stamps: layout.Stamps{}.Set("need", fmt.Sprintf("%032x", 1)).Set("priority", 0),
			}
		}
	}}
	err := a.fill(ctx, machines, drivertest.Options{})
	a.cfg, a.driver = buying, listing{a.cloud}
	return a, err
}

// Restart is how long a new leader took.
type Restart struct {
	Serving time.Duration // from the beginning of its term until it served
	Decided time.Duration // from then until demand mode had decided about the first roll-up
}

// RestartOfDemandMode measures new leaders of a shard of so many machines, a multiple of 100, which are bound to a
// cluster that asks for them: the fastest of the rounds. That machines are bought or given back is an error.
func RestartOfDemandMode(ctx context.Context, env Env, machines int) (least Restart, err error) {
	a, err := boundMachines(ctx, machines, true)
	if err != nil {
		return least, err
	}
	for i := range env.Rounds {
		r, err := a.restart(ctx, uint64(i)+2, machines)
		if err != nil {
			return least, err
		}
		if i == 0 || r.Serving+r.Decided < least.Serving+least.Decided {
			least = r
		}
	}
	return least, nil
}

// restart is one take-over, until the answer to the roll-up.
func (a *archive) restart(ctx context.Context, term uint64, machines int) (r Restart, err error) {
	var w *world
	if w, r.Serving, err = a.begin(ctx, term, nil); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	from := time.Now()
	told, err := w.ask(ctx, machines)
	if err != nil {
		return r, err
	}
	select {
	case held := <-told:
		if held {
			return r, errors.New("the first roll-up is held")
		}
	case <-ctx.Done():
		return r, ctx.Err()
	}
	r.Decided = time.Since(from)
	if n := len(w.cache.All()); n != machines {
		return r, fmt.Errorf("%d machines after the first decision, want the %d that are asked for", n, machines)
	}
	return r, nil
}

// ask connects an operator, which says that its cluster needs so many machines.
func (w *world) ask(ctx context.Context, machines int) (answered, error) {
	if err := eventually(ctx, "demand mode", func() bool { return w.term.Demand() != nil }); err != nil {
		return nil, err
	}
	link, told := w.term.Demand(), answered(make(chan bool, 1))
	if _, err := link.Connect(ctx, tenantName, demandloop.Hello{NodeReports: true}, told); err != nil {
		return nil, err
	}
	return told, link.Post(ctx, tenantName, told, demandloop.RollupReceived{Sequence: 1, Rows: rowsFor(machines)})
}

// BindingsOfDemandMode is how many idle machines are bound in a second where each request to storage takes so long,
// out of so many, a multiple of 100: the most of the rounds.
func BindingsOfDemandMode(ctx context.Context, env Env, machines int, latency time.Duration) (perSecond float64, err error) {
	for range env.Rounds {
		rate, err := bindings(ctx, machines, latency)
		if err != nil {
			return 0, err
		}
		perSecond = max(perSecond, rate)
	}
	return perSecond, nil
}

func bindings(ctx context.Context, machines int, latency time.Duration) (perSecond float64, err error) {
	a, err := boundMachines(ctx, machines, false)
	if err != nil {
		return 0, err
	}
	w, _, err := a.begin(ctx, 2, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var bound atomic.Int64
	w.store.SetFaults(func(c memory.Call) memory.Fault {
		if strings.HasPrefix(c.Key, layout.InstancePrefix(shardName)) && bytes.Contains(c.Data, []byte(`"binding"`)) {
			bound.Add(1)
		}
		return memory.Fault{Latency: latency}
	})
	from, all := time.Now(), int64(machines)*99/100
	if _, err := w.ask(ctx, machines); err != nil {
		return 0, err
	}
	err = eventually(ctx, "the last binding", func() bool { return bound.Load() >= all })
	return float64(all) / time.Since(from).Seconds(), err
}

// podCPU is what a Pod asks for, in thousandths of a core: all but a few that a machine of four cores has for Pods.
const podCPU = 3900

// rowsFor ask for one Pod on each of so many machines. What sums find of a second Pod beside it, all machines
// together, is less than one of 100 machines.
func rowsFor(machines int) (rows []demand.Row) {
	const each = 100
	for i := range machines / each {
		row := demand.Row{
			Fingerprint: fmt.Sprint(i % 40), Interruption: 1, Reclamation: 1,
			Aggregate: []vector.Amount{{Name: "cpu", Amount: podCPU * each}, {Name: "pods", Amount: each}},
			MinUnit:   []vector.Amount{{Name: "cpu", Amount: podCPU}, {Name: "pods", Amount: 1}},
		}
		copy(row.Key[:], fmt.Sprint("row", i))
		rows = append(rows, row)
	}
	return rows
}

// answered is an operator's session that waits for the answer to its roll-up, and has room for one: whether it is held.
type answered chan bool

// Tell implements [demandloop.Session].
func (a answered) Tell(m demandloop.Message) {
	if m, ok := m.(demandloop.RollupAnswer); ok {
		a <- m.Quarantined
	}
}
