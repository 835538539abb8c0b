package demandloop

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/demand/vector"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

// BenchmarkG15_BindingsExecuted is how many machines a second are bound by 64 workers where each write
// takes 50 ms: idle ones that a roll-up asks for.
func BenchmarkG15_BindingsExecuted(b *testing.B) {
	for b.Loop() {
		const machines = 2000
		w := newWorld(b)
		w.step, w.op.silent = 50*time.Millisecond, true
		for range machines {
			id := benchID(b)
			w.rows[id] = cache.Instance{Instance: fleet.Instance{ID: id, Group: web, State: fleet.Running, Created: time.Now()}}
			w.recs[id] = layout.InstanceRecord{
				ID: id, Tenant: "acme", Group: "web", InstanceType: "m", Status: layout.StatusRegistered, RegisteredAt: layout.At(time.Now()),
			}
		}
		w.start()
		w.connect()
		began := time.Now()
		w.ask(4 * machines)
		for range time.Tick(10 * time.Millisecond) {
			if w.bindings()["intent"] >= machines {
				break
			}
		}
		b.ReportMetric(machines/time.Since(began).Seconds(), "bindings/s")
		w.stop()
		w.under.Wait()
	}
}

func benchID(tb testing.TB) identity.ID {
	tb.Helper()
	id, err := identity.NewID("knc")
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

// BenchmarkG9_RestartToTheFirstDecision is how long a new term takes from a hundred thousand records in
// memory to its first cycle with a roll-up.
func BenchmarkG9_RestartToTheFirstDecision(b *testing.B) {
	const machines, clusters = 100_000, 20
	w := newWorld(b)
	for i := range machines {
		id := benchID(b)
		w.rows[id] = cache.Instance{Instance: fleet.Instance{ID: id, Group: web, State: fleet.Running, Created: time.Now()}}
		w.recs[id] = layout.InstanceRecord{
			ID: id, Tenant: "acme", Group: "web", InstanceType: "m", Status: layout.StatusRegistered, RegisteredAt: layout.At(time.Now()),
			Binding: &layout.Binding{
				State: layout.BindingBound, Cluster: fmt.Sprintf("c%02d", i%clusters), Price: 100_000, BoundAt: layout.At(time.Now()),
				Stamps: layout.Stamps{}.Set("need", fmt.Sprintf("%032x", i%clusters)).Set("priority", 5),
			},
		}
	}
	for b.Loop() {
		began := time.Now()
		loop, err := New(Options{
			Term: 1, Supply: w.supply, Records: w, Machines: w, NewID: w.newID, Random: w.name, Now: time.Now,
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			b.Fatal(err)
		}
		w.loop = loop
		ctx, end := context.WithCancel(b.Context())
		over := make(chan error)
		go func() { over <- loop.Run(ctx) }()
		told := &decided{answers: make(chan struct{}, 1)}
		if _, err := loop.Connect(ctx, "c00", Hello{NodeReports: true}, told); err != nil {
			b.Fatal(err)
		}
		rows := need(1)
		rows[0].Aggregate = []vector.Amount{{Name: "cpu", Amount: 4000 * machines / clusters}}
		if err := loop.Post(ctx, "c00", told, RollupReceived{Sequence: 1, Rows: rows}); err != nil {
			b.Fatal(err)
		}
		<-told.answers
		b.ReportMetric(time.Since(began).Seconds(), "s/restart")
		end()
		<-over
	}
}

// decided is an operator that waits for the answer to its roll-up.
type decided struct{ answers chan struct{} }

func (d *decided) Tell(m Message) {
	if _, ok := m.(RollupAnswer); ok {
		d.answers <- struct{}{}
	}
}
