package panels_test

import (
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/env/panels"
)

func TestEvaluate(t *testing.T) {
	s := scraped(t)
	all := []panels.Panel{
		{Title: "Machines", Queries: []string{"sum(machines) > 10"}},
		{Title: "Calls", Queries: []string{`calls_total{code="OK"}`, `calls_total{code="Lost"}`}},
		{Title: "Of another program", Queries: []string{"other"}},
	}
	about := func(query string) bool { return query != "other" }
	for name, test := range map[string]struct {
		later map[string]string
		want  []string // what is wrong
	}{
		"a reason for what has no value": {map[string]string{"Calls": "none is lost"}, nil},
		"no reason":                      {nil, []string{`panel "Calls" has no value: calls_total{code="Lost"}`}},
		"a reason that is empty":         {map[string]string{"Calls": ""}, []string{`"Calls" has no value`, `panel "Calls" may be without a value, and nothing says why`}},
		"a reason for what has a value": {map[string]string{"Calls": "none is lost", "Machines": "there is none"},
			[]string{`panel "Machines" has values, or does not exist: take out the reason why it has none (there is none)`}},
		"a reason for what does not exist": {map[string]string{"Calls": "none is lost", "Gone": "it is"}, []string{`panel "Gone" has values, or does not exist`}},
		"a reason for what nobody asks about": {map[string]string{"Calls": "none is lost", "Of another program": "it is"},
			[]string{`panel "Of another program" has values, or does not exist`}},
	} {
		answers, err := s.Evaluate(t.Context(), start.Add(time.Minute), all, about, test.later)
		if answers.Values != 2 || answers.Waiting > 1 {
			t.Errorf("%s: answers %+v", name, answers)
		}
		if (err == nil) != (len(test.want) == 0) || err != nil && strings.Count(err.Error(), "\n") != len(test.want)-1 {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
	}
	if _, err := s.Evaluate(t.Context(), start, all, func(string) bool { return false }, nil); err == nil || err.Error() != "no query has a value" {
		t.Errorf("of nothing: %v", err)
	}
	if _, err := s.Evaluate(t.Context(), start, []panels.Panel{{Title: "Half", Queries: []string{"sum("}}}, about, nil); err == nil || !strings.Contains(err.Error(), `panel "Half"`) {
		t.Errorf("of half a query: %v", err)
	}
	twice := panels.Panel{Title: "Twice", Queries: []string{`calls_total{code="OK"} > on () (calls_total{code="OK"} or machines)`}}
	if _, err := s.Evaluate(t.Context(), start.Add(time.Minute), []panels.Panel{twice}, about, nil); err == nil || !strings.Contains(err.Error(), `panel "Twice"`) {
		t.Errorf("of a query with two series where one is compared: %v", err)
	}
}

// TestFires: a rule fires for a series that it has selected for as long as it asks, not for one after another.
func TestFires(t *testing.T) {
	var s panels.Samples
	for i, text := range []string{"m{of=\"a\"} 1\nm{of=\"b\"} 0\n", "m{of=\"a\"} 1\nm{of=\"b\"} 0\n", "m{of=\"a\"} 0\nm{of=\"b\"} 1\n"} {
		if err := s.Add(nil, text, start.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		expr  string
		after time.Duration
		hold  time.Duration
		want  bool
	}{
		{"m > 0", time.Minute, time.Minute, true},
		{"m > 0", time.Minute, 2 * time.Minute, false},
		{"m > 0", 2 * time.Minute, 0, true},
		{"m > 0", 2 * time.Minute, time.Minute, false},
		{"m > 1", 2 * time.Minute, 0, false},
	} {
		rule := panels.Panel{Title: "R", Queries: []string{test.expr}, For: test.hold}
		if got, err := s.Fires(t.Context(), rule, start.Add(test.after)); err != nil || got != test.want {
			t.Errorf("%s for %v, after %v: %v, %v", test.expr, test.hold, test.after, got, err)
		}
	}
	if _, err := s.Fires(t.Context(), panels.Panel{Queries: []string{"sum("}}, start); err == nil {
		t.Error("half a rule was evaluated")
	}
}
