package aws_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nstance.dev/providers/aws"
	"nstance.dev/server/config"
)

const page = "../../docs/providers/aws.md"

// section returns what stands under a heading of the provider's page.
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
	// A call in the table of API calls, and its permissions.
	apiCall    = regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|.*\\| (.*) \\|$")
	permission = regexp.MustCompile("`([a-z0-9]+:[A-Za-z]+)`")
	codeBlock  = regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")
	heredoc    = regexp.MustCompile("(?s)<<EOF\n(.*?)\nEOF\n")
)

// checkDocumented compares the calls that a whole run of the contract made with
// the table on the provider's page: nothing is called that is not there, and
// nothing is there that is not called.
func checkDocumented(t *testing.T, made map[string]bool) {
	t.Helper()
	listed := map[string]bool{}
	for _, match := range apiCall.FindAllStringSubmatch(section(t, "API calls and permissions"), -1) {
		listed[match[1]] = true
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if !listed[name] {
			t.Errorf("%s is called, and %s does not list it", name, page)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !made[name] {
			t.Errorf("%s lists %s, which is never called", page, name)
		}
	}
}

// The policy allows what the table says that the calls need, and no more.
func TestPolicyIsTheLeast(t *testing.T) {
	needed := map[string]bool{}
	for _, match := range apiCall.FindAllStringSubmatch(section(t, "API calls and permissions"), -1) {
		for _, p := range permission.FindAllStringSubmatch(match[2], -1) {
			needed[p[1]] = true
		}
	}
	var policy struct {
		Statement []struct{ Action any }
	}
	if err := json.Unmarshal([]byte(block(t, "Permissions", "json")), &policy); err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{}
	for _, s := range policy.Statement {
		switch action := s.Action.(type) {
		case string:
			allowed[action] = true
		case []any:
			for _, a := range action {
				allowed[a.(string)] = true
			}
		}
	}
	if !maps.Equal(needed, allowed) {
		t.Errorf("the calls need %v,\nthe policy allows %v", slices.Sorted(maps.Keys(needed)), slices.Sorted(maps.Keys(allowed)))
	}
}

// block returns the first block of code in a section that is of a language.
func block(t *testing.T, heading, language string) string {
	t.Helper()
	for _, match := range codeBlock.FindAllStringSubmatch(section(t, heading), -1) {
		if match[1] == language {
			return match[2]
		}
	}
	t.Fatalf("section %q has no block of %s", heading, language)
	return ""
}

// What the page shows as a configuration is one, without a doubt about it.
func TestConfigurationsOnThePage(t *testing.T) {
	tour := heredoc.FindStringSubmatch(section(t, "Three machines without an account"))
	if tour == nil {
		t.Fatal("the tour writes no configuration")
	}
	expanded := regexp.MustCompile(`\$\(.*?\)|\$PWD`).ReplaceAllString(tour[1], "ZWNobw==")
	for name, text := range map[string]string{
		"without an account": expanded,
		"with an account":    block(t, "Three machines with an account", "jsonc"),
	} {
		cfg, err := config.Load("aws.md", []byte(text), config.LoadOptions{Shard: "us-east-1a", Storage: "s3", Rules: aws.Rules()})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if len(cfg.Warnings) > 0 {
			t.Errorf("%s: %v", name, cfg.Warnings)
		}
	}
}
