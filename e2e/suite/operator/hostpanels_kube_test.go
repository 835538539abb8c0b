//go:build kube

package operator_test

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/env/panels"
)

// hostPanels are what the dashboards and alerts of the chart ask of host machines, and what an operator has answered to scrapes,
// which are said to be a minute apart.
type hostPanels struct {
	panels.Samples
	at time.Time
}

// scrape takes in what the operator says now.
func (p *hostPanels) scrape(t *testing.T, s *system) {
	t.Helper()
	if p.at.IsZero() {
		p.at = time.Date(2026, 5, 6, 7, 0, 0, 0, time.UTC)
	}
	p.at = p.at.Add(time.Minute)
	if err := p.Add(map[string]string{"job": "nstance", "instance": "operator", "namespace": s.namespace}, s.metrics(t), p.at); err != nil {
		t.Fatal(err)
	}
}

// evaluate checks that each query about host machines has a value; later says of the others, by their titles, what has not
// happened here.
func (p *hostPanels) evaluate(t *testing.T, s *system, later map[string]string) {
	t.Helper()
	var all []panels.Panel
	for _, file := range []string{"dashboard.json", "dashboard-demand.json"} {
		data, err := os.ReadFile(chartDir() + "/files/" + file)
		if err != nil {
			t.Fatal(err)
		}
		found, err := panels.Dashboard(data, map[string]string{"namespace": s.namespace})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	shown, waiting := 0, map[string]bool{}
	for _, panel := range all {
		for _, query := range panel.Queries {
			if !strings.Contains(query, "nstance_machines_") {
				continue
			}
			parts, err := panels.Operands(query)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range parts {
				found, err := p.Query(t.Context(), part, p.at)
				if err != nil {
					t.Errorf("%s: %v", panel.Title, err)
				}
				known := false
				for _, one := range found {
					known = known || one.H != nil || !math.IsNaN(one.F)
				}
				switch {
				case known:
					shown++
				case later[panel.Title] == "":
					t.Errorf("panel %q shows nothing: %s", panel.Title, part)
				default:
					waiting[panel.Title] = true
				}
			}
		}
	}
	for title := range later {
		if !waiting[title] {
			t.Errorf("panel %q shows something, or there is none: there is no reason to leave it out", title)
		}
	}
	if shown < 8 {
		t.Errorf("%d queries about host machines have a value", shown)
	}
	t.Logf("%d queries about host machines have a value, %d panels wait for what did not happen here", shown, len(waiting))
}
