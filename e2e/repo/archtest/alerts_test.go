package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// alertRules are the rules of a file, each from its name on.
func alertRules(t *testing.T, data []byte) []string {
	t.Helper()
	rules := strings.Split(string(data), "- alert: ")[1:]
	if len(rules) < 5 {
		t.Fatalf("%d rules found", len(rules))
	}
	return rules
}

// TestAlertsHaveASection: each alert of the servers has a section of its own in docs/alerts.md, with a command, and no other has one.
func TestAlertsHaveASection(t *testing.T) {
	root, _ := trackedFiles(t)
	var data [2][]byte
	for i, name := range []string{"alerts.yaml", "alerts.md"} {
		var err error
		if data[i], err = os.ReadFile(filepath.Join(root, "docs", name)); err != nil {
			t.Fatal(err)
		}
	}
	sections := map[string]string{}
	for _, section := range strings.Split(string(data[1]), "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		sections[name] = text
	}
	for _, rule := range alertRules(t, data[0]) {
		name, _, _ := strings.Cut(rule, "\n")
		if !strings.Contains(sections[name], "```sh\n") {
			t.Errorf("docs/alerts.md has no section %q with a command: say there what the alert means and what to do", "## "+name)
		}
		delete(sections, name)
	}
	for name := range sections {
		t.Errorf("docs/alerts.md has a section %q, and docs/alerts.yaml no such alert", name)
	}
}

// TestAlertsUseMetricsThatExist: a rule about a metric that nobody has never fires.
func TestAlertsUseMetricsThatExist(t *testing.T) {
	root, _ := trackedFiles(t)
	data, err := os.ReadFile(filepath.Join(root, "docs", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	actual := inSource(t, `"(nstance_[a-z_]+)"`)
	for _, rule := range alertRules(t, data) {
		name, _, _ := strings.Cut(rule, "\n")
		used := all(`(nstance_[a-z_]+)`, rule)
		if len(used) == 0 {
			t.Errorf("%s uses no metric", name)
		}
		for metric := range used {
			of := metric
			for _, part := range []string{"_sum", "_count", "_bucket"} { // of a histogram
				of = strings.TrimSuffix(of, part)
			}
			if !actual[metric] && !actual[of] {
				t.Errorf("%s uses the metric %s, which the server does not have", name, metric)
			}
		}
		for place := range all(`(docs/[a-z/-]+\.md#[a-z0-9-]+)`, rule) {
			page, heading, _ := strings.Cut(place, "#")
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
			if err != nil {
				t.Errorf("%s sends to %s: %v", name, place, err)
				continue
			}
			found := false
			for line := range strings.Lines(string(text)) {
				level, title, _ := strings.Cut(strings.TrimSpace(line), " ")
				anchor := strings.NewReplacer(" ", "-", "'", "").Replace(strings.ToLower(title))
				found = found || (level == "##" || level == "###") && anchor == heading
			}
			if !found {
				t.Errorf("%s sends to %s, which has no such section", name, place)
			}
		}
		for _, field := range []string{"expr: ", "severity: ", "summary: ", "action: "} {
			if !strings.Contains(rule, field) {
				t.Errorf("%s lacks %q", name, strings.TrimSuffix(field, ": "))
			}
		}
	}
}
