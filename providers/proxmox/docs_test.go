package proxmox_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nstance.dev/providers/proxmox"
	"nstance.dev/server/config"
)

// page is the provider's page in the documentation.
const page = "../../docs/providers/proxmox.md"

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
	callRow    = regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\|.*\\| ([^|]*) \\|$") // a call and its privileges
	argRow     = regexp.MustCompile("(?m)^\\| ((?:`[A-Za-z]+`(?:, )?)+) \\|")
	code       = regexp.MustCompile("`([^`]+)`")
	block      = regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")
	heredoc    = regexp.MustCompile("(?s)<<EOF\n(.*?)\nEOF\n")
	substitute = regexp.MustCompile(`\$\([^)]*\)|\$PWD`)
)

// documentedCalls are the calls that the page lists.
func documentedCalls(t *testing.T) map[string]bool {
	t.Helper()
	calls := map[string]bool{}
	for _, match := range callRow.FindAllStringSubmatch(section(t, "API calls and privileges"), -1) {
		calls[match[1]] = true
	}
	return calls
}

// role are the privileges of the role on the page.
func role(t *testing.T) []string {
	t.Helper()
	for _, match := range block.FindAllStringSubmatch(section(t, "API calls and privileges"), -1) {
		if match[1] == "role" {
			return strings.Fields(match[2])
		}
	}
	t.Fatal("the page has no role")
	return nil
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

func TestRoleIsWhatTheCallsNeed(t *testing.T) {
	needed, given := map[string]bool{}, map[string]bool{}
	for _, match := range callRow.FindAllStringSubmatch(section(t, "API calls and privileges"), -1) {
		for _, p := range code.FindAllStringSubmatch(match[2], -1) {
			needed[p[1]] = true
		}
	}
	for _, p := range role(t) {
		given[p] = true
	}
	same(t, "privilege", needed, given)
}

// The role on the page is the one that the script makes.
func TestRoleIsThatOfTheScript(t *testing.T) {
	if got, want := role(t), rolePrivileges(t); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("the page has %q, token.sh %q", got, want)
	}
}

// What the page shows as a configuration is one, without a doubt about it.
func TestConfigurationsOnThePage(t *testing.T) {
	tour := heredoc.FindStringSubmatch(section(t, "Three machines without a cluster"))
	if tour == nil {
		t.Fatal("the tour writes no configuration")
	}
	texts := map[string]string{"without a cluster": substitute.ReplaceAllString(tour[1], "ZWNobw==")}
	for _, match := range block.FindAllStringSubmatch(section(t, "Three machines with a cluster"), -1) {
		if match[1] == "jsonc" {
			texts["with a cluster"] = match[2]
		}
	}
	if len(texts) != 2 {
		t.Fatal("the page shows no configuration for a cluster")
	}
	for name, text := range texts {
		cfg, err := config.Load("proxmox.md", []byte(text), config.LoadOptions{Shard: "rack-1", Storage: "s3", Rules: proxmox.Rules()})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if len(cfg.Warnings) > 0 {
			t.Errorf("%s: %v", name, cfg.Warnings)
		}
	}
}

func TestArgumentsOnThePage(t *testing.T) {
	documented, known := map[string]bool{}, map[string]bool{}
	for _, match := range argRow.FindAllStringSubmatch(section(t, "Arguments"), -1) {
		for _, name := range code.FindAllStringSubmatch(match[1], -1) {
			documented[name[1]] = true
		}
	}
	for _, name := range proxmox.ArgNames() {
		known[name] = true
	}
	same(t, "argument", known, documented)
}
