package demandloop

import (
	"bytes"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nstance.dev/server/demand"
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
