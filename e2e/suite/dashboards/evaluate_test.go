package dashboards_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/e2e/env/panels"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// chart is where the operator's dashboards and rules are.
const chart = "operator/charts/nstance-operator/files/"

// namespace is what the operator's dashboards are asked about.
const namespace = "nstance-system"

// start is when the first scrape is said to have been taken; the others follow by the minute.
var start = time.Date(2026, 5, 6, 7, 0, 0, 0, time.UTC)

// page is a file of panels.
type page struct {
	file   string
	panels []panels.Panel
}

// read reads a dashboard or, where it is YAML, rules.
func read(t *testing.T, file string) page {
	t.Helper()
	all, err := panels.Read(filepath.Join("..", "..", "..", file), map[string]string{"namespace": namespace})
	if err != nil {
		t.Fatal(err)
	}
	return page{file, all}
}

// scrapes are samples with the time of the last.
type scrapes struct {
	panels.Samples
	at time.Time
}

// take takes in the answers of all targets to one round of scrapes.
func (s *scrapes) take(t *testing.T, answers map[string]string) {
	t.Helper()
	if s.at.IsZero() {
		s.at = start
	}
	s.at = s.at.Add(time.Minute)
	for instance, text := range answers {
		target := map[string]string{"job": "nstance", "instance": instance, "namespace": namespace, "pod": instance}
		if err := s.Add(target, text, s.at); err != nil {
			t.Fatal(err)
		}
	}
}

// evaluate checks that each query has a value. Where it has none, later must say what has to happen
// before it has, by the panel's title.
func (s *scrapes) evaluate(t *testing.T, p page, about func(query string) bool, later map[string]string) {
	t.Helper()
	answers, err := s.Evaluate(t.Context(), s.at, p.panels, about, later)
	if err != nil {
		t.Errorf("%s: %v", p.file, err)
	}
	t.Logf("%s: %d queries have values, %d wait for what did not happen here", p.file, answers.Values, answers.Waiting)
}

// ofOperator says whether a query is about what the operator counts.
func ofOperator(query string) bool {
	for _, name := range []string{"nstance_operator_", "nstance_demand_operator_", "nstance_demand_upc_", "nstance_machines_"} {
		if strings.Contains(query, name) {
			return true
		}
	}
	return false
}
