//go:build kube

package operator_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/env/panels"
)

// seenPanels are what the dashboards and alerts of the chart ask, and what an operator has answered to scrapes,
// which are said to be a minute apart.
type seenPanels struct {
	panels.Samples
	at time.Time
}

// scrape takes in what the operator says now.
func (p *seenPanels) scrape(t *testing.T, s *system) {
	t.Helper()
	if p.at.IsZero() {
		p.at = time.Date(2026, 5, 6, 7, 0, 0, 0, time.UTC)
	}
	p.at = p.at.Add(time.Minute)
	if err := p.Add(map[string]string{"job": "nstance", "instance": "operator", "namespace": s.namespace}, s.metrics(t), p.at); err != nil {
		t.Fatal(err)
	}
}

// evaluate checks that each query about metrics with a prefix has a value, and that there are as many as least; later says
// of the others, by their titles, what has not happened here. Queries that contain one of chance are left out: what they
// are about may happen here or not.
func (p *seenPanels) evaluate(t *testing.T, s *system, prefix string, least int, later map[string]string, chance ...string) {
	t.Helper()
	var all []panels.Panel
	for _, file := range []string{"dashboard.json", "dashboard-demand.json", "alerts.yaml"} {
		found, err := panels.Read(filepath.Join(chartDir(), "files", file), map[string]string{"namespace": s.namespace})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	answers, err := p.Evaluate(t.Context(), p.at, all, func(query string) bool {
		return strings.Contains(query, prefix) && !slices.ContainsFunc(chance, func(part string) bool { return strings.Contains(query, part) })
	}, later)
	if err != nil {
		t.Error(err)
	}
	if answers.Values < least {
		t.Errorf("%d queries about %s have a value, want %d", answers.Values, prefix, least)
	}
	t.Logf("%d queries about %s have a value, %d wait for what did not happen here", answers.Values, prefix, answers.Waiting)
}
