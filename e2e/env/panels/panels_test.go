package panels_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/e2e/env/panels"
)

var start = time.Date(2026, 5, 6, 7, 0, 0, 0, time.UTC)

// answers is what a target would answer, one minute after another.
var answers = []string{
	`# TYPE machines gauge
machines{group="web",namespace="own"} 3
# TYPE calls_total counter
calls_total{code="OK"} 1
# TYPE took_seconds histogram
took_seconds_bucket{le="1"} 0
took_seconds_bucket{le="+Inf"} 0
took_seconds_sum 0
took_seconds_count 0
`,
	`machines{group="web",namespace="own"} 4
calls_total{code="OK"} 61
took_seconds_bucket{le="1"} 2
took_seconds_bucket{le="+Inf"} 2
`,
}

func scraped(t *testing.T) *panels.Samples {
	t.Helper()
	var s panels.Samples
	for i, text := range answers {
		if err := s.Add(map[string]string{"namespace": "ns", "job": "x"}, text, start.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	return &s
}

func TestQueriesAreAnsweredAsPrometheusDoes(t *testing.T) {
	s := scraped(t)
	for query, want := range map[string]string{
		`machines`: `{__name__="machines", exported_namespace="own", group="web", job="x", namespace="ns"} => 4 @[1778050860000]`,
		`sum by (code) (rate(calls_total{namespace=~"ns|other"}[4m])) > bool 0`: `{code="OK"} => 1 @[1778050860000]`,
		`histogram_quantile(0.5, sum by (le) (rate(took_seconds_bucket[4m])))`:  `{} => 0.5 @[1778050860000]`,
		`machines{namespace="own"}`: ``,
		`nothing`:                   ``,
		`time()`:                    `{} => 1778050860 @[1778050860000]`,
		`count by (group) (machines) unless on () count(machines{group=""})`:   `{group="web"} => 1 @[1778050860000]`,
		`count by (absent) (machines) unless on () count(machines{absent=""})`: ``,
		`min_over_time(machines[4m])`:                                          `{exported_namespace="own", group="web", job="x", namespace="ns"} => 3 @[1778050860000]`,
	} {
		vector, err := s.Query(t.Context(), query, start.Add(time.Minute))
		if err != nil {
			t.Error(err)
			continue
		}
		var got []string
		for _, one := range vector {
			got = append(got, one.String())
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{"sum(", "machines[5m]", `"text"`} {
		if _, err := s.Query(t.Context(), query, start); err == nil {
			t.Errorf("%s has an answer", query)
		}
	}
}

func TestWhatIsNoMetricIsRefused(t *testing.T) {
	var s panels.Samples
	if err := s.Add(map[string]string{"job": "x"}, "<html>", start); err == nil || !strings.Contains(err.Error(), "job:x") {
		t.Errorf("error %v", err)
	}
}

func TestOperands(t *testing.T) {
	for query, want := range map[string][]string{
		`sum(a)`:                           {`sum(a)`},
		`sum(a) > 0`:                       {`sum(a)`},
		`(5 < (sum(a)))`:                   {`sum(a)`},
		`a == bool 1`:                      {`a == bool 1`},
		`a > on (x) b`:                     {`a`, `b`},
		`sum(a) > 0 and sum(b) == 0`:       {`sum(a)`, `sum(b)`},
		`a - time() < 0.1 * (a - b)`:       {`0.1 * (a - b)`, `a - time()`},
		`a != ignoring (kind) a`:           {`a`},
		`a or b > 0`:                       {`a or b > 0`},
		`sum by (x) (increase(a[1h])) > 3`: {`sum by (x) (increase(a[1h]))`},
	} {
		got, err := panels.Operands(query)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q (%v), want %q", query, got, err, want)
		}
	}
	if _, err := panels.Operands("sum("); err == nil {
		t.Error("half a query has operands")
	}
}

func TestDashboardsAndRulesAreRead(t *testing.T) {
	got, err := panels.Dashboard([]byte(`{"title": "T", "templating": {"list": [
		{"name": "datasource", "type": "datasource", "query": "prometheus"},
		{"name": "namespace", "type": "query", "query": "label_values(m, namespace)"}]},
	"panels": [{"title": "a row"}, {"title": "P", "targets": [{"expr": "rate(m{namespace=\"$namespace\"}[$__rate_interval])"}, {"expr": "m"}]}]}`),
		map[string]string{"namespace": "ns"})
	want := []panels.Panel{
		{Title: "variable namespace", Queries: []string{`count by (namespace) (m) unless on () count(m{namespace=""})`}},
		{Title: "P", Queries: []string{`rate(m{namespace="ns"}[4m])`, "m"}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	rules, err := panels.Rules([]byte("groups: [{name: g, rules: [{alert: A, expr: m > 0, for: 1m, labels: {severity: info}}]}]"))
	if diff := cmp.Diff([]panels.Panel{{Title: "A", Queries: []string{"m > 0"}, For: time.Minute}}, rules); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for _, bad := range []string{``, `{`, `{"title": "T"}`, `{"title": "T", "templating": {"list": [{"name": "x", "type": "query", "query": "metrics(.*)"}]}, "panels": [{"targets": [{"expr": "m"}]}]}`} {
		if _, err := panels.Dashboard([]byte(bad), nil); err == nil {
			t.Errorf("dashboard %q was read", bad)
		}
	}
	for _, bad := range []string{``, `groups: 1`} {
		if _, err := panels.Rules([]byte(bad)); err == nil {
			t.Errorf("rules %q were read", bad)
		}
	}
}
