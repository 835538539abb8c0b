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
	{"create before record", []edit{{
		"server/provisioning/launcher.go", `	err := l.opts.Instances.Create(ctx, *rec)
	traces.End(span, err)
	switch {
`, `	var err error
	traces.End(span, err)
	_ = l.opts.Cache.Insert(instances.RowOf(*rec))
	l.opts.Go(func(ctx context.Context) { _ = l.opts.Instances.Write(ctx, *rec) })
	switch {
`,
	}, {
		"server/provisioning/launcher.go", `	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
`, `	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
	"nstance.dev/server/layout"
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
			"server/agents/registration.go", `	_, err = a.opts.Instances.Change(a.ctx, row.ID, func(rec *layout.InstanceRecord) error {
		switch {
		case rec.Deletion != nil:
			return refuseRegistration(`, `	mark := func(rec *layout.InstanceRecord) error {
		switch {
		case rec.Deletion != nil:
			return refuseRegistration(`,
		},
		{"server/agents/registration.go", `		rec.Certificate = replaceCertificate(rec.Certificate.Serial, cert)
		return nil
	})
	if refused := (*refusal.Error)(nil); errors.As(err, &refused) {
		return nil, err
	}
	if err != nil {
		a.opts.Over(err)
		return nil, a.opts.Unavailable(err)
	}
	a.reportUnprovenPlace(row, source, place)`, `		rec.Certificate = replaceCertificate(rec.Certificate.Serial, cert)
		return nil
	}
	rec, _ := a.opts.Instances.Record(row.ID)
	if err := mark(&rec); err != nil {
		return nil, err
	}
	a.opts.Go(func() { _, _ = a.opts.Instances.Change(a.ctx, row.ID, mark) })
	a.reportUnprovenPlace(row, source, place)`},
	}},
	{"empty list believed", []edit{
		{"server/fleet/brake.go", `	if lost > max(brakeFloor, expected/brakeShare) {`, `	if lost < 0 {`},
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
		if len(p.replacementsOf(in)) == 0 {`, `		if !p.removable(in) && in.State != Draining {
			continue
		}
		if len(p.replacementsOf(in)) == 0 {`,
	}}},
	{"replacement never awaited", []edit{{
		"server/fleet/replacement.go", `	case far >= r.until:`, `	case far > 0:`,
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
		r.queue.waiting.Done(group)
`, `		r.queue.waiting.Done(group)
		if ctx.Err() == nil {
			r.reconcile(ctx, group)
		}
`,
	}}},
	{"hold forgotten", []edit{{
		"server/instances/rows.go", `	copyMutable(&row, rec)
	switch {
	case rec.Deletion != nil:`, `	copyMutable(&row, rec)
	row.Hold = fleet.Hold{}
	switch {
	case rec.Deletion != nil:`,
	}, {
		"server/removal/condemn.go", `	case instances.HoldOf(rec.Hold).Keeps(a.Reason, rec.OnDemand, now):`,
		`	case rec.OnDemand && instances.HoldOf(rec.Hold).Keeps(a.Reason, rec.OnDemand, now):`,
	}}},
	{"hold kept for ever", []edit{{
		"server/instances/rows.go", `Since: h.Since.Time, Until: h.Until.Time}`, `Since: h.Since.Time, Until: h.Until.Time.AddDate(10, 0, 0)}`,
	}}},
	{"released whoever holds it", []edit{{
		"server/lease/handback/decision.go", `	case !slices.ContainsFunc(noted, now.doc.SameVersion):`, `	case !slices.ContainsFunc(noted, func(lease.Document) bool { return true }):`,
	}}},
	{"power cycle sent twice", []edit{{ // by a leader that does not look at what another one has sent
		"server/hosts/operations_store.go", `	for _, op := range begun {
		rec := op.record()
`, `	for _, op := range begun {
		op.rec.Marks = op.rec.Marks[:min(1, len(op.rec.Marks))]
		rec := op.record()
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
