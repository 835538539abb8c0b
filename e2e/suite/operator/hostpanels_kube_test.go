//go:build kube

package operator_test

import (
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
	answers, err := p.Evaluate(t.Context(), p.at, all, func(query string) bool { return strings.Contains(query, "nstance_machines_") }, later)
	if err != nil {
		t.Error(err)
	}
	if answers.Values < 8 {
		t.Errorf("%d queries about host machines have a value", answers.Values)
	}
	t.Logf("%d queries about host machines have a value, %d wait for what did not happen here", answers.Values, answers.Waiting)
}
