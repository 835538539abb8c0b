package sim_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A mistake is a version of the servers that breaks a promise. The simulator has to
// find each: one that cannot find them proves nothing about the version without.
type mistake struct {
	name  string
	edits []edit
}

// edit replaces a text that occurs once in a file of the repository.
type edit struct{ file, old, new string }

var mistakes = []mistake{
	{"create before intent", []edit{{
		"server/shard/create.go", `	err = r.records.create(ctx, rec)
	endSpan(span, err)
	if err != nil {
		if errors.Is(err, objectstore.ErrUnavailable) {
			r.tasks.Go(func() { r.withdraw(rec) })
		}
		return nil, err
	}
`, `	endSpan(span, nil)
	r.tasks.Go(func() { _ = r.records.create(r.ctx, rec) })
`,
	}}},
	{"lease check skipped", []edit{{
		"server/shard/cloud.go", `	if err := lease.Check(ctx); err != nil {
		return err
	}
	callCtx, cancel :=`, `	_ = lease.Check
	callCtx, cancel :=`,
	}}},
	{"nonce marked after issue", []edit{
		{
			"server/shard/register.go", `	rec, err := r.records.update(r.ctx, row.ID, func(rec *bucket.InstanceRecord) error {
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
	if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
		return nil, err
	}
	if err != nil {
		r.stumble(err)
		return nil, unavailable(err)
	}
	if dropped {`, `		rec.Certificate = succeed(rec.Certificate.Serial, cert)
		return nil
	}
	rec, _ := r.records.get(row.ID)
	if err := mark(&rec); err != nil {
		return nil, err
	}
	r.tasks.Go(func() { _, _ = r.records.update(r.ctx, row.ID, mark) })
	if dropped {`},
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
		"server/shard/documents.go", `DeleteAt: d.DeleteAt.Time, Acked: !d.DrainAckedAt.IsZero(),`, `DeleteAt: d.DeleteAt.Time,`,
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

// overlay writes a file for go's -overlay that makes the edits, and fails loudly
// where a text is not there any more.
func overlay(t *testing.T, edits []edit) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	texts := map[string][]byte{}
	for _, e := range edits {
		path := filepath.Join(root, e.file)
		if texts[path] == nil {
			if texts[path], err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		if n := bytes.Count(texts[path], []byte(e.old)); n != 1 {
			t.Fatalf("%s has the text that the mistake replaces %d times, want once; fit the mistake to the code:\n%s", e.file, n, e.old)
		}
		texts[path] = bytes.Replace(texts[path], []byte(e.old), []byte(e.new), 1)
	}
	replace := map[string]string{}
	for path, text := range texts {
		replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[path], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMistakesCompile checks that every mistake still fits the code and compiles;
// whether each is found is the business of make sim-mistakes.
func TestMistakesCompile(t *testing.T) {
	var all []edit
	for _, m := range mistakes {
		all = append(all, m.edits...)
	}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-overlay", overlay(t, all), "../../server/shard").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
