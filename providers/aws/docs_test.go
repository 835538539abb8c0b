package aws_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/providers/aws"
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
	allowed := actions(t, docpage.Read(t, page, policies).Block("json"))
	_, needed := docpage.Read(t, page, table).Calls()
	docpage.Same(t, "permission", slices.DeleteFunc(allowed, ofStores), needed)
}

// statement is one of a policy, whose action is a text or a list of them.
type statement struct {
	Sid    string
	Action any
}

func statements(t *testing.T, text string) []statement {
	t.Helper()
	var policy struct{ Statement []statement }
	if err := json.Unmarshal([]byte(text), &policy); err != nil {
		t.Fatal(err)
	}
	return policy.Statement
}

// actions are those of all statements of a policy.
func actions(t *testing.T, text string) []string {
	t.Helper()
	var allowed []string
	for _, s := range statements(t, text) {
		switch action := s.Action.(type) {
		case string:
			allowed = append(allowed, action)
		case []any:
			for _, a := range action {
				allowed = append(allowed, a.(string))
			}
		}
	}
	return allowed
}

// ofStores reports whether a permission is one for storage and secrets, which have pages of their own.
func ofStores(permission string) bool {
	service, _, _ := strings.Cut(permission, ":")
	return slices.Contains([]string{"s3", "ssm", "kms"}, service)
}

// What the policy has for storage and secrets is what their pages say.
func TestPolicyHasStorageAndSecrets(t *testing.T) {
	allowed := slices.DeleteFunc(actions(t, docpage.Read(t, page, "Permissions").Block("json")), func(p string) bool { return !ofStores(p) })
	const storage = "../../docs/storage.md"
	needed := append(actions(t, docpage.Read(t, storage, "Amazon S3 and others").Block("json")), docpage.Listed(t, storage, "With a key of KMS add\n")...)
	for _, row := range docpage.Read(t, "../../docs/security.md", "What is secret, and where it lies").Rows() {
		if row[0] == "`aws-parameter-store`" && strings.Contains(row[1], "ssm:") {
			needed = append(needed, docpage.Code(row[1])...)
		}
	}
	docpage.Same(t, "permission", allowed, needed)
}

// Each statement has a name of its own, and the table above the policy has each of them.
func TestStatementsOfThePolicyHaveNames(t *testing.T) {
	section := docpage.Read(t, page, "Permissions")
	var names, described []string
	for _, s := range statements(t, section.Block("json")) {
		if s.Sid == "" || slices.Contains(names, s.Sid) {
			t.Errorf("statement %q: no name of its own", s.Sid)
		}
		names = append(names, s.Sid)
	}
	for _, row := range section.Rows() {
		described = append(described, docpage.Code(row[0])...)
	}
	docpage.Same(t, "statement", names, described)
}

// What the page shows as a configuration is one, without a doubt about it; and a nonce lives under it for as long as the page says.
func TestConfigurationsOnThePage(t *testing.T) {
	var nonce time.Duration
	for name, text := range map[string]string{
		"without an account": docpage.Read(t, page, "Three machines without an account").Heredoc(),
		"with an account":    docpage.Read(t, page, "Three machines with an account").Block("jsonc"),
	} {
		cfg, err := config.Load("aws.md", []byte(text), config.LoadOptions{Shard: "us-east-1a", Storage: "s3", Rules: rules.New()})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if len(cfg.Warnings) > 0 {
			t.Errorf("%s: %v", name, cfg.Warnings)
		} else {
			nonce = cfg.Server.GarbageCollection.RegistrationTimeout.Std() + new(aws.Driver).LongestCreate()
		}
	}
	text, err := os.ReadFile(page)
	if want := fmt.Sprintf("for one registration within %v minutes", nonce.Minutes()); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the page does not say that a nonce is good %s: %v", want, err)
	}
}
