package prebuild_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/pavertest"
	"nstance.dev/agent/paver/prebuild"
)

var now = time.Unix(1000, 0).UTC()

func of(digit string) assignment.Assignment {
	a, err := assignment.From(pavertest.Prebuild(digit, true).GetAssignment())
	if err != nil {
		panic(err)
	}
	return a
}

// holding is a host whose slot a runs content 1, with content 0 in the other one.
func holding(p *journal.Prebuild) journal.Journal {
	return journal.Journal{
		V: journal.Version, Active: journal.A, Previous: journal.B, Epoch: 2, Prebuild: p,
		Contents: map[journal.Slot]journal.Content{
			journal.A: {Configuration: of("1").Configuration, Epoch: 2, BootID: "x"}, journal.B: {Configuration: of("0").Configuration, Epoch: 1, BootID: "y"},
		},
	}
}

func at(stage journal.PrebuildStage, change func(*journal.Prebuild)) *journal.Prebuild {
	p := &journal.Prebuild{Scope: journal.WholeSlot, Stage: stage, Since: now, Assignment: of("2")}
	if stage == journal.PrebuildBuild {
		p.Slot = journal.B
	}
	if change != nil {
		change(p)
	}
	return p
}

func TestM64_Next(t *testing.T) {
	for _, c := range []struct {
		name string
		view prebuild.View
		want prebuild.Kind
		slot journal.Slot
	}{
		{"nothing is to be prepared", prebuild.View{Journal: holding(nil)}, prebuild.Wait, journal.None},
		{"what was asked for is fetched", prebuild.View{Journal: holding(at(journal.PrebuildFetch, nil)), Secrets: true}, prebuild.Fetch, journal.None},
		{"not without its pull secrets", prebuild.View{Journal: holding(at(journal.PrebuildFetch, nil))}, prebuild.Wait, journal.None},
		{"what is fetched is built", prebuild.View{Journal: holding(at(journal.PrebuildBuild, nil)), Secrets: true}, prebuild.Build, journal.B},
		{"after a failure not at once", prebuild.View{Journal: holding(at(journal.PrebuildFetch, func(p *journal.Prebuild) { p.RetryAt = now.Add(1) })), Secrets: true}, prebuild.Wait, journal.None},
		{"but then", prebuild.View{Journal: holding(at(journal.PrebuildFetch, func(p *journal.Prebuild) { p.RetryAt = now })), Secrets: true}, prebuild.Fetch, journal.None},
		{"done", prebuild.View{Journal: holding(at(journal.PrebuildDone, nil)), Secrets: true}, prebuild.Wait, journal.None},
		{"given up", prebuild.View{Journal: holding(at(journal.PrebuildFailed, nil)), Secrets: true}, prebuild.Wait, journal.None},
		{"a newer assignment", prebuild.View{Journal: holding(at(journal.PrebuildFetch, nil)), Assignment: &assignment.Assignment{Epoch: 3}, Secrets: true}, prebuild.Wait, journal.None},
		{"the assignment of what runs", prebuild.View{Journal: holding(at(journal.PrebuildFetch, nil)), Assignment: &assignment.Assignment{Epoch: 2}, Secrets: true}, prebuild.Fetch, journal.None},
		{"a switch", prebuild.View{Journal: func() journal.Journal {
			j := holding(at(journal.PrebuildBuild, nil))
			j.Transition = &journal.Transition{Epoch: 2, Stage: journal.Join}
			return j
		}(), Secrets: true}, prebuild.Wait, journal.None},
		{"a host without a machine", prebuild.View{Journal: journal.Journal{Prebuild: at(journal.PrebuildFetch, nil)}, Secrets: true}, prebuild.Wait, journal.None},
	} {
		c.view.Now = now
		got := prebuild.Next(c.view)
		if got.Kind != c.want || got.Slot != c.slot || got.Reason == "" || (got.Kind != prebuild.Wait) != (got.Limit > 0) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestM64_Accept(t *testing.T) {
	broken := holding(nil)
	content := broken.Contents[journal.B]
	content.Broken = true
	broken.Contents[journal.B] = content
	for _, c := range []struct {
		name    string
		journal journal.Journal
		scope   journal.Scope
		digit   string
		want    journal.PrebuildStage // empty: it is ignored
		changed bool
	}{
		{"new", holding(nil), journal.WholeSlot, "2", journal.PrebuildFetch, true},
		{"a replay", holding(at(journal.PrebuildFailed, nil)), journal.WholeSlot, "2", journal.PrebuildFailed, false},
		{"more of the same", holding(at(journal.PrebuildDone, nil)), journal.Images, "2", journal.PrebuildFetch, true},
		{"newer content", holding(at(journal.PrebuildBuild, nil)), journal.WholeSlot, "3", journal.PrebuildFetch, true},
		{"what runs", holding(nil), journal.WholeSlot, "1", "", false},
		{"what the idle slot holds", holding(nil), journal.WholeSlot, "0", journal.PrebuildDone, true},
		{"what failed in the idle slot", broken, journal.WholeSlot, "0", journal.PrebuildFetch, true},
	} {
		got, changed, err := prebuild.Accept(c.journal, c.scope, of(c.digit), now)
		if (err != nil) != (c.want == "") || changed != c.changed {
			t.Errorf("%s: changed %v, %v", c.name, changed, err)
			continue
		}
		if c.want != "" && got.Prebuild.Stage != c.want {
			t.Errorf("%s: %+v", c.name, got.Prebuild)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	pave := of("2")
	pave.Mode = assignment.Pave
	if _, changed, err := prebuild.Accept(holding(nil), journal.WholeSlot, pave, now); err == nil || changed {
		t.Errorf("another mode was accepted: %v", err)
	}
	if j, changed := prebuild.Withdraw(holding(at(journal.PrebuildFetch, nil))); !changed || j.Prebuild != nil {
		t.Error("it was not withdrawn")
	}
	if j, changed := prebuild.Withdraw(holding(at(journal.PrebuildDone, nil))); changed || j.Prebuild == nil {
		t.Error("what is prepared was withdrawn")
	}
}

// The journal says that the idle slot holds nothing before that is removed, and what it holds once it is built.
func TestM64_After(t *testing.T) {
	fetched := prebuild.After(holding(at(journal.PrebuildFetch, nil)), prebuild.Step{Kind: prebuild.Fetch}, prebuild.Result{Now: now})
	if _, holds := fetched.Contents[journal.B]; holds || fetched.Previous != journal.None || fetched.Prebuild.Stage != journal.PrebuildBuild || fetched.Prebuild.Slot != journal.B {
		t.Errorf("fetched: %+v", fetched)
	}
	built := prebuild.After(fetched, prebuild.Step{Kind: prebuild.Build, Slot: journal.B}, prebuild.Result{Now: now})
	if diff := cmp.Diff(journal.Content{Configuration: of("2").Configuration}, built.Contents[journal.B]); diff != "" || built.Prebuild.Stage != journal.PrebuildDone {
		t.Errorf("built: %+v %s", built.Prebuild, diff)
	}
	images := prebuild.After(holding(at(journal.PrebuildFetch, func(p *journal.Prebuild) { p.Scope = journal.Images })), prebuild.Step{Kind: prebuild.Fetch}, prebuild.Result{Now: now})
	if images.Prebuild.Stage != journal.PrebuildDone || images.Previous != journal.B {
		t.Errorf("images alone: %+v", images)
	}
	j := fetched
	for attempt := 1; attempt <= 3; attempt++ {
		j = prebuild.After(j, prebuild.Step{Kind: prebuild.Build, Slot: journal.B}, prebuild.Result{Err: errors.New("disk full"), Now: now})
		if p := j.Prebuild; p.Attempts != attempt || p.LastError != "disk full" || (p.Stage == journal.PrebuildFailed) != (attempt == 3) || p.RetryAt.After(now) != (attempt < 3) {
			t.Errorf("attempt %d: %+v", attempt, p)
		}
	}
	for _, one := range []journal.Journal{fetched, built, images, j} {
		if err := one.Validate(); err != nil {
			t.Error(err)
		}
	}
}
