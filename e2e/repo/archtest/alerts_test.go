package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAlertsUseMetricsThatExist: a rule about a metric that nobody has never fires.
func TestAlertsUseMetricsThatExist(t *testing.T) {
	root, _ := trackedFiles(t)
	data, err := os.ReadFile(filepath.Join(root, "docs", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	actual := inSource(t, `"(nstance_[a-z_]+)"`)
	rules := strings.Split(string(data), "- alert: ")[1:]
	if len(rules) < 5 {
		t.Fatalf("%d rules found", len(rules))
	}
	for _, rule := range rules {
		name, _, _ := strings.Cut(rule, "\n")
		used := all(`(nstance_[a-z_]+)`, rule)
		if len(used) == 0 {
			t.Errorf("%s uses no metric", name)
		}
		for metric := range used {
			if !actual[metric] {
				t.Errorf("%s uses the metric %s, which the server does not have", name, metric)
			}
		}
		for _, field := range []string{"expr: ", "severity: ", "summary: ", "action: "} {
			if !strings.Contains(rule, field) {
				t.Errorf("%s lacks %q", name, strings.TrimSuffix(field, ": "))
			}
		}
	}
}
