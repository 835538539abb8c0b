package sim_test

import (
	"testing"

	"nstance.dev/e2e/sim/mistaken"
)

// A mistake is a version of the servers that breaks a promise. The simulator has to
// find each: one that cannot find them proves nothing about the version without.
type mistake struct {
	name  string
	edits []edit
}

type edit = mistaken.Edit

var mistakes = []mistake{
	{"create before intent", []edit{{
		"server/shard/create.go", `	err = r.instances.Create(ctx, rec)
	endSpan(span, err)
	if err != nil {
		if errors.Is(err, objectstore.ErrUnavailable) {
			r.tasks.Go(func() { r.withdraw(rec) })
		}
		return nil, err
	}
`, `	endSpan(span, nil)
	_ = r.cache.Insert(instances.RowOf(rec))
	r.events.instance(r.cache, id, "created")
	r.tasks.Go(func() { _ = r.instances.Write(r.ctx, rec) })
`,
	}}},
	{"lease check skipped", []edit{{
		"server/provider/client.go", `	if err := lease.Check(ctx); err != nil {
		return err
	}
	callCtx, cancel :=`, `	_ = lease.Check
	callCtx, cancel :=`,
	}}},
	{"nonce marked after issue", []edit{
		{
			"server/shard/register.go", `	after, err := r.instances.Change(r.ctx, row.ID, func(rec *bucket.InstanceRecord) error {
		switch {
		case rec.Deletion != nil:
			return refuseRegistration(`, `	mark := func(rec *bucket.InstanceRecord) error {
		switch {
		case rec.Deletion != nil:
			return refuseRegistration(`,
		},
		{"server/shard/register.go", `		rec.Certificate = succeed(rec.Certificate.Serial, cert)
		return nil
	})
	if refused := (*refusal.Error)(nil); errors.As(err, &refused) {
		return nil, err
	}
	if err != nil {
		r.stumble(err)
		return nil, unavailable(err)
	}
	r.reportUnproved(row, source, place)`, `		rec.Certificate = succeed(rec.Certificate.Serial, cert)
		return nil
	}
	rec, _ := r.instances.Record(row.ID)
	if err := mark(&rec); err != nil {
		return nil, err
	}
	after := row
	r.tasks.Go(func() { _, _ = r.instances.Change(r.ctx, row.ID, mark) })
	r.reportUnproved(row, source, place)`},
	}},
	{"empty list believed", []edit{
		{"server/fleet/brake.go", `	if lost > max(brakeFloor, live/brakeShare) {`, `	if lost < 0 {`},
		{"server/fleet/sighting.go", `	return a.agreed(a.First) || a.Last.Sub(a.First) >= absenceApart`, `	return !a.First.IsZero()`},
	}},
	{"on-demand counted", []edit{{
		"server/fleet/plan.go", `				c.OnDemand++
			}
			continue
`, `				c.OnDemand++
			}
`,
	}}},
	{"victim already draining", []edit{{
		"server/fleet/scaledown.go", `		if !p.removable(in) {
			continue
		}
		if len(p.heirsOf(in)) == 0 {`, `		if !p.removable(in) && in.State != Draining {
			continue
		}
		if len(p.heirsOf(in)) == 0 {`,
	}}},
	{"replacement never awaited", []edit{{
		"server/fleet/succession.go", `	case far >= s.until:`, `	case far > 0:`,
	}}},
	{"ack ignored across take-over", []edit{{
		"server/instances/rows.go", `DeleteAt: d.DeleteAt.Time, Acked: !d.DrainAckedAt.IsZero(),`, `DeleteAt: d.DeleteAt.Time,`,
	}}},
	{"surge unbounded", []edit{{
		"server/fleet/rotation.go", `		case oldest == nil:
			oldest = in
`, `		default:
			p.act(Create{Group: p.v.Group.ID, Replaces: in.ID, Why: due.why})
`,
	}}},
	{"second worker per group", []edit{{
		"server/shard/reconcile.go", `		if ctx.Err() == nil {
			r.reconcile(ctx, group)
		}
		r.queue.Done(group)
`, `		r.queue.Done(group)
		if ctx.Err() == nil {
			r.reconcile(ctx, group)
		}
`,
	}}},
}

// TestMistakesCompile checks that every mistake still fits the code and compiles;
// whether each is found is the business of make sim-mistakes.
func TestMistakesCompile(t *testing.T) {
	var all []edit
	for _, m := range mistakes {
		all = append(all, m.edits...)
	}
	mistaken.Compile(t, "../..", "./server/shard", all)
}
