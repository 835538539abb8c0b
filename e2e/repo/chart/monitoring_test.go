package chart_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nstance.dev/operator/metrics"
)

// observable is one of everything that the chart has for watching the operator.
func observable(t *testing.T) (rules *unstructured.Unstructured, dashboards map[string]*unstructured.Unstructured) {
	t.Helper()
	r := render(t, least(values{"demand": values{"enabled": true}, "metrics": values{"rules": values{"enabled": true}, "dashboards": values{"enabled": true}}}))
	return find(t, r, "PrometheusRule", "nstance-operator"), map[string]*unstructured.Unstructured{
		"nstance-operator.json": find(t, r, "ConfigMap", "nstance-operator-dashboard"),
		"nstance-demand.json":   find(t, r, "ConfigMap", "nstance-operator-dashboard-demand"),
	}
}

// alert is a rule as Prometheus reads it.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	rules, _ := observable(t)
	spec := as[struct {
		APIVersion, Kind string
		Metadata         values
		Spec             struct {
			Groups []struct {
				Name  string
				Rules []alert
			}
		}
	}](t, rules)
	if len(spec.Spec.Groups) != 1 || len(spec.Spec.Groups[0].Rules) < 10 {
		t.Fatalf("%d groups of rules, or too few rules", len(spec.Spec.Groups))
	}
	return spec.Spec.Groups[0].Rules
}

// TestAlertsAreAboutTheOperatorsMetrics: a rule about a metric, a label or a value that the
// operator does not have never fires.
func TestAlertsAreAboutTheOperatorsMetrics(t *testing.T) {
	for _, a := range alerts(t) {
		for _, problem := range problems(t, a.Expr) {
			t.Errorf("%s: %s", a.Alert, problem)
		}
	}
}

// TestAlertsAreExplained: each has a section of its own in the documentation, which has no
// section about anything else.
func TestAlertsAreExplained(t *testing.T) {
	const page = "docs/kubernetes/alerts.md"
	text, err := os.ReadFile(filepath.Join("..", "..", "..", page))
	if err != nil {
		t.Fatal(err)
	}
	var sections, names []string
	for _, found := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(string(text), -1) {
		sections = append(sections, found[1])
	}
	for _, a := range alerts(t) {
		names = append(names, a.Alert)
		if want := page + "#" + strings.ToLower(a.Alert); a.Annotations["runbook"] != want {
			t.Errorf("%s: the runbook is %q, want %q", a.Alert, a.Annotations["runbook"], want)
		}
		if a.Annotations["summary"] == "" || !slices.Contains([]string{"warning", "critical"}, a.Labels["severity"]) {
			t.Errorf("%s lacks a summary or a severity", a.Alert)
		}
	}
	if !slices.Equal(names, sections) {
		t.Errorf("alerts %v, sections of %s %v", names, page, sections)
	}
}

// TestTheDashboardsShowAllMetrics: those of the operator and, of the servers, those of demand mode; and
// nothing that does not exist.
func TestTheDashboardsShowAllMetrics(t *testing.T) {
	_, dashboards := observable(t)
	shown := ""
	for file, object := range dashboards {
		if object.GetLabels()["grafana_dashboard"] != "1" {
			t.Errorf("Grafana does not find %s", file)
		}
		shown += expressions(t, file, object)
	}
	for _, m := range metrics.All() {
		name := m.FullName()
		if !regexp.MustCompile(name+`(_bucket|_count)?\{`).MatchString(shown) && m.Name != "certificate_start_seconds" {
			t.Errorf("no panel shows %s", name)
		}
	}
	for name := range serversDemand(t) {
		if !regexp.MustCompile(name + `(_bucket|_count)?[\[{) ]`).MatchString(shown) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// expressions are those of all panels of a dashboard, each of which is checked.
func expressions(t *testing.T, file string, object *unstructured.Unstructured) (shown string) {
	t.Helper()
	text, _, err := unstructured.NestedString(object.Object, "data", file)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		UID    string
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(text), &dashboard); err != nil {
		t.Fatal(err)
	}
	if dashboard.UID+".json" != file {
		t.Errorf("%s has the id of %s", file, dashboard.UID)
	}
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H == 0 {
			t.Errorf("panel %q has the id of another one, or no place", p.Title)
		}
		ids[p.ID] = true
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$namespace", "ns", "$__rate_interval", "5m").Replace(target.Expr)
			for _, problem := range problems(t, expr) {
				t.Errorf("panel %q: %s", p.Title, problem)
			}
			shown += expr + "\n"
		}
	}
	return shown
}

// serversDemand are the servers' metrics of demand mode with their labels, as the manual lists them: a test of
// the servers holds that list to the code.
func serversDemand(t testing.TB) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(nstance_demand_[a-z_]+)` \\|([^|]*)\\|").FindAllStringSubmatch(string(text), -1) {
		all[row[1]] = nil
		for _, label := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[2], -1) {
			all[row[1]] = append(all[row[1]], label[1])
		}
	}
	if len(all) < 20 {
		t.Fatalf("docs/operations.md has %d metrics of demand mode", len(all))
	}
	return all
}

// ofTarget are the labels that everything has which Prometheus collects from a Pod.
var ofTarget = []string{"namespace", "pod", "instance", "job"}

// problems are what is wrong with an expression about the operator's metrics.
func problems(t testing.TB, expr string) []string {
	t.Helper()
	root, err := parser.ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	known := slices.Clone(ofTarget) // labels that some metric of the expression has
	ours := false
	parser.Inspect(root, func(n parser.Node, _ []parser.Node) error {
		selector, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		m, ok := metric(selector.Name)
		if !ok {
			m, ok = ofServers(t, selector.Name)
		}
		if !ok {
			found = append(found, "the operator has no metric "+selector.Name)
			return nil
		}
		ours = true
		for _, l := range m.Labels {
			known = append(known, l.Name)
		}
		if m.Kind == metrics.Histogram {
			known = append(known, "le")
		}
		for _, matcher := range selector.LabelMatchers {
			found = append(found, unmatched(m, matcher)...)
		}
		return nil
	})
	parser.Inspect(root, func(n parser.Node, _ []parser.Node) error {
		var named []string
		switch n := n.(type) {
		case *parser.AggregateExpr:
			named = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				named = n.VectorMatching.MatchingLabels
			}
		}
		for _, name := range named {
			if !slices.Contains(known, name) {
				found = append(found, "no metric in it has the label "+name)
			}
		}
		return nil
	})
	if !ours && len(found) == 0 {
		found = append(found, "it is about none of the operator's metrics")
	}
	return found
}

// metric returns the one that a series belongs to.
func metric(series string) (metrics.Metric, bool) {
	for _, m := range metrics.All() {
		name := m.FullName()
		if m.Kind != metrics.Histogram && series == name || m.Kind == metrics.Histogram && slices.Contains([]string{name + "_bucket", name + "_count", name + "_sum"}, series) {
			return m, true
		}
	}
	return metrics.Metric{}, false
}

// ofServers returns the metric of the servers that a series belongs to.
func ofServers(t testing.TB, series string) (metrics.Metric, bool) {
	t.Helper()
	name, isBucket := strings.CutSuffix(series, "_bucket")
	labels, ok := serversDemand(t)[name]
	if !ok || isBucket != strings.HasSuffix(name, "_seconds") {
		return metrics.Metric{}, false
	}
	m := metrics.Metric{Name: name, Kind: metrics.Gauge}
	if isBucket {
		m.Kind = metrics.Histogram
	}
	for _, l := range labels {
		m.Labels = append(m.Labels, metrics.Label{Name: l})
	}
	return m, true
}

// unmatched are the values that a matcher asks for and the label never has.
func unmatched(m metrics.Metric, matcher *labels.Matcher) []string {
	if matcher.Name == labels.MetricName || slices.Contains(ofTarget, matcher.Name) {
		return nil
	}
	i := slices.IndexFunc(m.Labels, func(l metrics.Label) bool { return l.Name == matcher.Name })
	if i < 0 {
		return []string{fmt.Sprintf("%s has no label %s", m.Name, matcher.Name)}
	}
	if m.Labels[i].Values == nil {
		return nil
	}
	var found []string
	for value := range strings.SplitSeq(matcher.Value, "|") {
		if !slices.Contains(m.Labels[i].Values, value) {
			found = append(found, fmt.Sprintf("label %s of %s is never %s", matcher.Name, m.Name, value))
		}
	}
	return found
}

// TestMistakesInExpressionsAreFound: what finds them would else not be missed.
func TestMistakesInExpressionsAreFound(t *testing.T) {
	for expr, want := range map[string]string{
		`nstance_operator_retiring > `:                                          "unexpected end of input",
		`nstance_operator_retired > 0`:                                          "the operator has no metric nstance_operator_retired",
		`nstance_operator_on_demand_ready_seconds > 0`:                          "the operator has no metric nstance_operator_on_demand_ready_seconds",
		`nstance_operator_retiring{group="web"} > 0`:                            "retiring has no label group",
		`nstance_operator_shard_state{state="Gone"} == 1`:                       "label state of shard_state is never Gone",
		`nstance_operator_shard_state{state=~"Ready|Gone"} == 1`:                "label state of shard_state is never Gone",
		`sum by (group) (nstance_operator_retiring)`:                            "no metric in it has the label group",
		`nstance_operator_retiring - ignoring (kind) nstance_operator_retiring`: "no metric in it has the label kind",
		`nstance_demand_needed`:                                                 "the operator has no metric nstance_demand_needed",
		`sum by (tenant) (nstance_demand_machines)`:                             "no metric in it has the label tenant",
		`time()`: "it is about none of the operator's metrics",
	} {
		if got := problems(t, expr); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}
