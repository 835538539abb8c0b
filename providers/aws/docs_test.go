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
	"nstance.dev/server/driver"
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

// What each of two shards is told to set for the limits of their account is half of what one takes by itself, and can be set;
// the page has what one takes.
func TestLimitsOnThePage(t *testing.T) {
	limits := new(aws.Driver).Limits()
	var rows []string
	for _, row := range docpage.Read(t, page, "Limits").Rows() {
		rows = append(rows, row[0]+" "+strings.ReplaceAll(row[1], ",0", "0"))
	}
	for name, b := range map[string]driver.Bucket{"calls": limits.Calls, "instances": limits.Instances, "deletes": limits.Deletes, "reads": limits.Reads} {
		if want := fmt.Sprintf("`%s` %v a second, burst %d", name, b.Rate, b.Burst); !slices.Contains(rows, want) {
			t.Errorf("the page has no row %s: %q", want, rows)
		}
	}
	var shown struct {
		Server struct {
			Provider struct{ Limits json.RawMessage }
		}
	}
	if err := json.Unmarshal([]byte(docpage.Read(t, "../../docs/troubleshooting.md", "Calls are throttled").Block("json")), &shown); err != nil {
		t.Fatal(err)
	}
	const zone = `"zone": "us-east-1a" }`
	text := docpage.Read(t, page, "Three machines with an account").Block("jsonc")
	if strings.Count(text, zone) != 1 {
		t.Fatalf("the configuration of the page has no %s", zone)
	}
	text = strings.Replace(text, zone, `"zone": "us-east-1a", "limits": `+string(shown.Server.Provider.Limits)+` }`, 1)
	cfg, err := config.Load("troubleshooting.md", []byte(text), config.LoadOptions{Shard: "us-east-1a", Storage: "s3", Rules: rules.New()})
	if err != nil {
		t.Fatal(err)
	}
	half := cfg.Server.Provider.Limits
	if half.Calls == nil || half.Deletes == nil || half.Reads == nil || half.Instances != nil {
		t.Fatalf("the example sets %s", shown.Server.Provider.Limits)
	}
	for name, of := range map[string]struct{ shard, account driver.Bucket }{
		"calls":   {driver.Bucket(*half.Calls), limits.Calls},
		"deletes": {driver.Bucket(*half.Deletes), limits.Deletes},
		"reads":   {driver.Bucket(*half.Reads), limits.Reads},
	} {
		if 2*of.shard.Rate != of.account.Rate || of.shard.Burst != of.account.Burst/2 {
			t.Errorf("%s: %+v for each of two shards of an account with %+v", name, of.shard, of.account)
		}
	}
	if 2*half.Calls.Rate > limits.Instances.Rate {
		t.Errorf("creates of two shards exceed the bucket of instances, %+v", limits.Instances)
	}
}
