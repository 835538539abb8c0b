package demandloop

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/lease"
)

// TestAudit: each decision that is carried out is a line, and what is not is one when it begins, changes and ends.
func TestAudit(t *testing.T) {
	var out bytes.Buffer
	a := newAudit(slog.New(slog.NewTextHandler(&out, nil)))
	bought := demand.Action{Kind: demand.Provision, Machine: "m1", Offer: "o", Cluster: "c", Reason: demand.ReasonNeed}
	paused := bought
	paused.Disposition = demand.Suppressed
	other := paused
	other.Machine = "m2"
	rehearsed := demand.Action{Kind: demand.Reclaim, Machine: "m3", Cluster: "c", Reason: demand.ReasonSurplus, Disposition: demand.DryRun}
	for _, step := range []struct {
		result demand.Result
		want   []string
	}{
		{demand.Result{Actions: []demand.Action{bought}}, []string{"action=provision machine=m1 cluster=c offer=o reason=need disposition=execute"}},
		{demand.Result{Actions: []demand.Action{paused, rehearsed}}, []string{
			"action=provision offer=o cluster=c reason=need disposition=suppressed count=1",
			"action=reclaim machine=m3 cluster=c reason=surplus disposition=dry-run count=1",
		}},
		{demand.Result{Actions: []demand.Action{other, rehearsed}}, nil},
		{demand.Result{Actions: []demand.Action{paused, other, rehearsed}}, []string{"action=provision offer=o cluster=c reason=need disposition=suppressed count=2"}},
		{demand.Result{Actions: []demand.Action{rehearsed}, Capped: 7}, []string{
			"action=provision offer=o cluster=c reason=need disposition=suppressed count=0",
			`action=reclaim reason="as many go already as may at once" disposition=capped count=7`,
		}},
		{demand.Result{Actions: []demand.Action{rehearsed}, Capped: 7}, nil},
		{demand.Result{}, []string{
			"action=reclaim machine=m3 cluster=c reason=surplus disposition=dry-run count=0",
			`action=reclaim reason="as many go already as may at once" disposition=capped count=0`,
		}},
	} {
		out.Reset()
		a.decided(step.result)
		var got []string
		for line := range strings.Lines(out.String()) {
			got = append(got, regexp.MustCompile(`^time=\S+ level=INFO msg="demand decision" `).ReplaceAllString(strings.TrimSpace(line), ""))
		}
		if !slices.Equal(got, step.want) {
			t.Fatalf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(step.want, "\n"))
		}
	}
}

// TestEffectsOfAnEndedTermAreFenced: what was under way, or waited for a worker, when the leadership ended is logged as such,
// and so is what a later term has refused.
func TestEffectsOfAnEndedTermAreFenced(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var out bytes.Buffer
		w.stop()
		w.log = slog.New(slog.NewTextHandler(&out, nil))
		w.start()
		w.connect()
		w.mu.Lock()
		refused := 0
		w.refuse = func(Purchase) error {
			if refused++; refused == 1 {
				return fmt.Errorf("write the record: %w", lease.ErrNotLeader)
			}
			return nil
		}
		w.mu.Unlock()
		w.ask(4)
		pass(time.Second)
		if n := strings.Count(out.String(), "disposition=fenced"); n != 1 || refused < 2 {
			t.Errorf("%d fenced of %d launches while the term went on, want the one that was refused:\n%s", n, refused, out.String())
		}
		out.Reset()
		w.mu.Lock()
		w.refuse, w.step = nil, 10*time.Second
		w.mu.Unlock()
		w.ask(400)
		pass(time.Second)
		w.stop()
		begun, unbegun := 0, 0
		for line := range strings.Lines(out.String()) {
			switch {
			case !strings.Contains(line, "disposition=fenced"):
			case strings.Contains(line, "it was not begun"):
				unbegun++
			default:
				begun++
			}
		}
		if begun != 64 || unbegun != 99-64 {
			t.Errorf("%d effects were under way and %d waited, want the 64 of the workers and the other 35:\n%s", begun, unbegun, out.String())
		}
		w.start()
	})
}
