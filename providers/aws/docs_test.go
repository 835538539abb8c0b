package aws_test

import (
	"encoding/json"
	"testing"

	"nstance.dev/providers/aws/rules"
	"nstance.dev/server/config"
	"nstance.dev/server/driver/drivertest/docpage"
)

// page is the provider's page in the documentation, and calls and extras the sections of
// it that list the calls of the API.
const (
	page   = "../../docs/providers/aws.md"
	calls  = "API calls and permissions"
	extras = "Optional permissions"
)

// The policies allow what the tables say that the calls need, and no more.
func TestPolicyIsTheLeast(t *testing.T) {
	samePermissions(t, "Permissions", calls)
	samePermissions(t, extras, extras)
}

func samePermissions(t *testing.T, policies, table string) {
	t.Helper()
	var policy struct {
		Statement []struct{ Action any }
	}
	if err := json.Unmarshal([]byte(docpage.Read(t, page, policies).Block("json")), &policy); err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for _, s := range policy.Statement {
		switch action := s.Action.(type) {
		case string:
			allowed = append(allowed, action)
		case []any:
			for _, a := range action {
				allowed = append(allowed, a.(string))
			}
		}
	}
	_, needed := docpage.Read(t, page, table).Calls()
	docpage.Same(t, "permission", allowed, needed)
}

// What the page shows as a configuration is one, without a doubt about it.
func TestConfigurationsOnThePage(t *testing.T) {
	for name, text := range map[string]string{
		"without an account": docpage.Read(t, page, "Three machines without an account").Heredoc(),
		"with an account":    docpage.Read(t, page, "Three machines with an account").Block("jsonc"),
	} {
		cfg, err := config.Load("aws.md", []byte(text), config.LoadOptions{Shard: "us-east-1a", Storage: "s3", Rules: rules.New()})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if len(cfg.Warnings) > 0 {
			t.Errorf("%s: %v", name, cfg.Warnings)
		}
	}
}
