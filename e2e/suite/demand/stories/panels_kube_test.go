//go:build kube

package stories_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"nstance.dev/e2e/env/demandcluster"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/panels"
)

// demandPanels is how many queries about the operator's part of demand mode have a value at least.
const demandPanels = 30

// seenPanels are what an operator has answered to scrapes, which are said to be a minute apart.
type seenPanels struct {
	panels.Samples
	at time.Time
}

// scrape takes in what the operator says, once it answers.
func (p *seenPanels) scrape(s *teller) {
	s.t.Helper()
	if p.at.IsZero() {
		p.at = time.Date(2026, 5, 6, 7, 0, 0, 0, time.UTC)
	}
	p.at = p.at.Add(time.Minute)
	kube.Await(s.t, "the operator counts what it does in demand mode", func(ctx context.Context) error {
		text, err := s.Metrics(ctx)
		if err != nil {
			return err
		}
		for _, begun := range []string{"nstance_demand_upc_pod_to_cr_seconds_bucket{", "nstance_demand_operator_reconnects_total{"} {
			if !strings.Contains(text, begun) {
				return fmt.Errorf("there is no %s...}", begun)
			}
		}
		return p.Add(map[string]string{"job": "nstance", "instance": "operator", "namespace": demandcluster.Namespace}, text, p.at)
	})
}

// evaluate checks that what dashboards and alerts ask of the operator's part of demand mode has a value; waiting says by the
// panel's title what cannot have happened here.
func (p *seenPanels) evaluate(s *teller, waiting map[string]string) {
	s.t.Helper()
	var all []panels.Panel
	for _, file := range []string{"dashboard.json", "dashboard-demand.json", "alerts.yaml"} {
		found, err := panels.Read(filepath.Join("..", "..", "..", "..", "operator", "charts", "nstance-operator", "files", file),
			map[string]string{"namespace": demandcluster.Namespace})
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, found...)
	}
	answers, err := p.Evaluate(s.t.Context(), p.at, all, func(query string) bool {
		return strings.Contains(query, "nstance_demand_operator_") || strings.Contains(query, "nstance_demand_upc_")
	}, waiting)
	if err != nil {
		s.t.Error(err)
	}
	if answers.Values < demandPanels {
		s.t.Errorf("%d queries about demand mode have a value, want %d", answers.Values, demandPanels)
	}
	s.t.Logf("%d queries about demand mode have a value, %d wait for what did not happen here", answers.Values, answers.Waiting)
}
