package gcp_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nstance.dev/providers/gcp"
	"nstance.dev/server/config"
)

// page is the provider's page in the documentation.
const page = "../../docs/providers/gcp.md"

// section returns what stands under a heading of the page.
func section(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, heading)
	}
	part, _, _ := strings.Cut(after, "\n## ")
	return part
}

var (
	row        = regexp.MustCompile("(?m)^\\| `([A-Za-z]+\\.[A-Za-z]+)` \\|.*\\| ([^|]*) \\|$") // a call and its permissions
	code       = regexp.MustCompile("`([^`]+)`")
	listed     = regexp.MustCompile(`(?m)^  - ([A-Za-z.]+)$`)
	blocks     = regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")
	heredoc    = regexp.MustCompile("(?s)<<EOF\n(.*?)\nEOF\n")
	substitute = regexp.MustCompile(`\$\([^)]*\)|\$PWD`)
	argument   = regexp.MustCompile("(?m)^\\| ((?:`[A-Za-z]+`(?:, )?)+) \\| (.*) \\|$")
)

// documentedCalls are the calls that the page lists, and all their permissions.
func documentedCalls(t *testing.T) (calls, permissions map[string]bool) {
	t.Helper()
	calls, permissions = map[string]bool{}, map[string]bool{}
	for _, match := range row.FindAllStringSubmatch(section(t, "API calls and permissions"), -1) {
		calls[match[1]] = true
		for _, p := range code.FindAllStringSubmatch(match[2], -1) {
			permissions[p[1]] = true
		}
	}
	return calls, permissions
}

// role are the permissions of the role on the page.
func role(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, match := range listed.FindAllStringSubmatch(section(t, "Permissions"), -1) {
		all = append(all, match[1])
	}
	return all
}

// same compares what is the case with what the page says.
func same(t *testing.T, what string, found, documented map[string]bool) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !documented[name] {
			t.Errorf("%s %s is not on the page", what, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if !found[name] {
			t.Errorf("%s %s is on the page, and is not the case", what, name)
		}
	}
}

func set(names []string) map[string]bool {
	made := map[string]bool{}
	for _, name := range names {
		made[name] = true
	}
	return made
}

func TestRoleIsWhatTheCallsNeed(t *testing.T) {
	_, needed := documentedCalls(t)
	same(t, "permission", needed, set(role(t)))
}

// What the page shows as a configuration is one, without a doubt about it.
func TestConfigurationsOnThePage(t *testing.T) {
	tour := heredoc.FindStringSubmatch(section(t, "Three machines without an account"))
	if tour == nil {
		t.Fatal("the tour writes no configuration")
	}
	texts := map[string]string{"without an account": substitute.ReplaceAllString(tour[1], "ZWNobw==")}
	for _, match := range blocks.FindAllStringSubmatch(section(t, "Three machines with an account"), -1) {
		if match[1] == "jsonc" {
			texts["with an account"] = match[2]
		}
	}
	if len(texts) != 2 {
		t.Fatal("the page shows no configuration for an account")
	}
	for name, text := range texts {
		cfg, err := config.Load("gcp.md", []byte(text), config.LoadOptions{Shard: "europe-west1-b", Storage: "gcs", Rules: gcp.Rules()})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if len(cfg.Warnings) > 0 {
			t.Errorf("%s: %v", name, cfg.Warnings)
		}
	}
}

// Every argument is on the page, as one that can be set or one that the server sets.
func TestArgumentsOnThePage(t *testing.T) {
	documented := map[string]bool{}
	for _, match := range argument.FindAllStringSubmatch(section(t, "Arguments"), -1) {
		for _, name := range code.FindAllStringSubmatch(match[1], -1) {
			documented[name[1]] = true
			forbidden := strings.Contains(match[2], "set by the server")
			if forbidden != slices.Contains(gcp.ForbiddenArgs, name[1]) {
				t.Errorf("%s: set by the server is %t on the page", name[1], forbidden)
			}
			err := gcp.CheckArg(name[1], "{{ .Vars.x }}")
			if (err == nil) == forbidden {
				t.Errorf("check of %s: %v", name[1], err)
			}
		}
	}
	same(t, "argument", set(slices.Concat(gcp.Arguments(), gcp.ForbiddenArgs)), documented)
}
