package deploy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	awsrules "nstance.dev/providers/aws/rules"
	gcprules "nstance.dev/providers/gcp/rules"
	"nstance.dev/server/config"
	"nstance.dev/server/driver"
)

var terraform = filepath.Join("..", "..", "..", "deploy", "terraform")

// clouds are the sets of modules: the rules of the cloud's configurations, the storage
// that they make, and what the example has to be given.
var clouds = map[string]struct {
	rules   *driver.Rules
	storage string
	given   map[string]string
}{
	"aws": {awsrules.New(), "s3", map[string]string{
		"bucket": "example-nstance", "server_url": "https://example.com/nstance-server-aws",
		"server_sha256": strings.Repeat("0f", 32), "agent_url": "https://example.com/nstance-agent",
	}},
	"gcp": {gcprules.New(), "gcs", map[string]string{
		"project": "my-project-1", "bucket": "example-nstance", "server_url": "https://example.com/nstance-server-gcp",
		"server_sha256": strings.Repeat("0f", 32), "agent_url": "https://example.com/nstance-agent",
	}},
}

// TestModulesAreWhole reads every module: it is formatted, says what it needs, and
// every variable and output is described and of use.
func TestModulesAreWhole(t *testing.T) {
	for cloud := range clouds {
		dirs, err := filepath.Glob(filepath.Join(terraform, cloud, "*", "versions.tf"))
		if err != nil || len(dirs) != 5 {
			t.Fatalf("%s has the modules %v, %v", cloud, dirs, err)
		}
		for _, path := range dirs {
			m, err := readModule(filepath.Dir(path))
			if err != nil {
				t.Errorf("%v", err)
				continue
			}
			if err := m.complete(); err != nil {
				t.Errorf("%s:\n%v", m.dir, err)
			}
		}
	}
}

// complete says what a module fails to declare, to describe or to use.
func (m *module) complete() error {
	var errs []error
	used := map[string]bool{}
	for _, t := range m.references() {
		used[t] = true
	}
	for name, block := range m.variables {
		if block.Body.Attributes["description"] == nil {
			errs = append(errs, fmt.Errorf("variable %s has no description", name))
		}
		if !used["var."+name] {
			errs = append(errs, fmt.Errorf("variable %s is not used", name))
		}
	}
	for name, block := range m.outputs {
		if block.Body.Attributes["description"] == nil {
			errs = append(errs, fmt.Errorf("output %s has no description", name))
		}
	}
	for name := range m.items {
		if strings.HasPrefix(name, "local.") && !used[name] {
			errs = append(errs, fmt.Errorf("%s is not used", name))
		}
	}
	if !slices.ContainsFunc(m.settings, declares) {
		errs = append(errs, errors.New("no required_version and required_providers"))
	}
	return errors.Join(errs...)
}

func declares(block *hclsyntax.Block) bool {
	return block.Type == "terraform" && block.Body.Attributes["required_version"] != nil &&
		slices.ContainsFunc(block.Body.Blocks, func(b *hclsyntax.Block) bool { return b.Type == "required_providers" })
}

// references are all that the module refers to.
func (m *module) references() []string {
	var nodes []hclsyntax.Node
	for _, i := range m.items {
		nodes = append(nodes, i.node())
	}
	for _, block := range slices.Concat(m.settings, slices.Collect(maps.Values(m.outputs))) {
		nodes = append(nodes, block.Body)
	}
	var all []string
	for _, node := range nodes {
		for _, t := range references(node) {
			all = append(all, reference(t))
		}
	}
	return all
}

// TestExampleMakesConfigurations works the example of each cloud out, and with it every
// expression of the modules. What comes out is what servers read.
func TestExampleMakesConfigurations(t *testing.T) {
	for cloud, of := range clouds {
		outputs := evaluated(t, cloud, of.given)
		configurations := outputs["configurations"].AsValueMap()
		if len(configurations) < 2 {
			t.Errorf("%s: the example has %d shards", cloud, len(configurations))
		}
		for shard, text := range configurations {
			cfg, err := config.Load(shard+".jsonc", []byte(text.AsString()), config.LoadOptions{Shard: shard, Storage: of.storage, Rules: of.rules})
			if err != nil {
				t.Errorf("%s: shard %s:\n%v\n%s", cloud, shard, err, text.AsString())
				continue
			}
			if len(cfg.Warnings) > 0 {
				t.Errorf("%s: shard %s: %v", cloud, shard, cfg.Warnings)
			}
		}
	}
}

func evaluated(t *testing.T, cloud string, given map[string]string) map[string]cty.Value {
	t.Helper()
	m, err := readModule(filepath.Join(terraform, cloud, "example"))
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]cty.Value{}
	for name, value := range given {
		vars[name] = cty.StringVal(value)
	}
	outputs, err := evaluate(m, vars)
	if err != nil {
		t.Fatal(err)
	}
	return outputs
}

// TestMistakesInModulesAreFound spoils a module in the ways that the tests above are
// there for.
func TestMistakesInModulesAreFound(t *testing.T) {
	const good = "variable \"name\" {\n  description = \"Name.\"\n  type        = string\n}\n"
	for what, test := range map[string]struct{ text, want string }{
		"syntax":            {"variable {", "Unclosed configuration block"},
		"format":            {"variable \"name\" {\n type = string\n}\n", "not formatted"},
		"no description":    {"variable \"name\" {\n  type = string\n}\n", "variable name has no description"},
		"unused":            {good, "variable name is not used"},
		"unknown variable":  {"locals {\n  a = var.other\n}\n", `does not have an attribute named "other"`},
		"unknown resource":  {"locals {\n  a = aws_vpc.that.id\n}\n", "aws_vpc.that, which there is not"},
		"unknown attribute": {"resource \"aws_vpc\" \"this\" {}\n\nlocals {\n  a = aws_vpc.this.colour\n}\n", "colour"},
		"unknown function":  {"locals {\n  a = shout(\"a\")\n}\n", "shout"},
		"a circle":          {"locals {\n  a = local.b\n  b = local.a\n}\n", "circle"},
		"missing variable":  {good + "\noutput \"a\" {\n  description = \"A.\"\n  value       = var.name\n}\n", "variable name: is needed"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := readModule(dir)
		if err == nil {
			err = m.complete()
			_, failed := evaluate(m, nil)
			err = errors.Join(err, failed)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want an error with %q", what, err, test.want)
		}
	}
}

// TestServersMayDoWhatTheyNeed compares what the modules allow servers with what the
// page of the cloud says that they need.
func TestServersMayDoWhatTheyNeed(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "providers", "aws.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, optional := range []bool{false, true} {
		heading := map[bool]string{false: "\n## Permissions\n", true: "\n## Optional permissions\n"}[optional]
		_, section, _ := strings.Cut(string(page), heading)
		_, section, _ = strings.Cut(section, "```json\n")
		policy, _, found := strings.Cut(section, "```")
		if !found {
			t.Fatalf("docs/providers/aws.md has no policy under %q", heading)
		}
		maps.Copy(want, grantsOf(t, policy))
		sameGrants(t, optional, want)
	}
}

// sameGrants compares what the modules allow servers, with or without what is off by
// default, with what they need.
func sameGrants(t *testing.T, optional bool, want map[string]bool) {
	t.Helper()
	got := map[string]bool{}
	for _, dir := range []string{"cluster", "shard"} {
		for name, text := range policies(t, filepath.Join(terraform, "aws", dir), optional) {
			for grant := range grantsOf(t, text) {
				if strings.HasPrefix(name, "aws_iam_role_policy.") {
					got[grant] = true
				}
			}
		}
	}
	for grant := range got {
		action, _, _ := strings.Cut(grant, " on ")
		switch service, _, _ := strings.Cut(action, ":"); {
		case service == "kms":
			delete(got, grant) // on keys that are named: see "Optional permissions"
		case strings.Contains(action, "*"):
			t.Errorf("servers may do anything like %s", action)
		}
	}
	want = maps.Clone(want)
	maps.DeleteFunc(want, func(grant string, _ bool) bool { return strings.HasPrefix(grant, "kms:") })
	if !maps.Equal(got, want) {
		t.Errorf("optional %t: the modules allow %v, the page says %v", optional, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// policies are the policies in a module, by the resource that has them: those that are
// made by default, or with everything that is optional.
func policies(t *testing.T, dir string, optional bool) map[string]string {
	t.Helper()
	e, found := worked(t, dir, strings.Repeat("0f", 32)), map[string]string{}
	for name, i := range e.module.items {
		if i.block != nil && i.block.Body.Attributes["policy"] != nil {
			if i.block.Body.Attributes["count"] != nil && !optional {
				count, err := e.attribute(name, "count")
				if err != nil {
					t.Fatal(err)
				}
				if n, _ := count.AsBigFloat().Int64(); n == 0 {
					continue
				}
			}
			text, err := e.attribute(name, "policy")
			if err != nil {
				t.Fatal(err)
			}
			found[name] = text.AsString()
		}
	}
	return found
}

// worked is a module that was worked out with samples for what it has to be given.
func worked(t *testing.T, dir, checksum string) *evaluation {
	t.Helper()
	m, err := readModule(dir)
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]cty.Value{}
	for name, block := range m.variables {
		if block.Body.Attributes["default"] == nil || name == "target_group_arns" {
			given[name] = sampleOf(name, checksum)
		}
	}
	vars, err := m.takeVariables(given)
	if err != nil {
		t.Fatal(err)
	}
	e := &evaluation{m, cty.ObjectVal(vars), map[string]cty.Value{}}
	if err := e.items(); err != nil {
		t.Fatal(err)
	}
	return e
}

// sampleOf is a value for a variable that has to have one.
func sampleOf(name, checksum string) cty.Value {
	switch name {
	case "subnet_pools", "templates":
		return cty.EmptyObjectVal
	case "target_group_arns":
		return cty.ListVal([]cty.Value{cty.StringVal("arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/a/b")})
	case "agent_role_arn":
		return cty.StringVal("arn:aws:iam::123456789012:role/nstance-agent")
	case "server_sha256":
		return cty.StringVal(checksum)
	case "server_url":
		return cty.StringVal("https://example.com/nstance-server")
	}
	return cty.StringVal("example")
}

// grantsOf are what a policy allows: actions, each with a kind of resource that it may be
// done to, as in "ec2:RunInstances on subnet".
func grantsOf(t *testing.T, policy string) map[string]bool {
	t.Helper()
	var document struct {
		Statement []struct {
			Effect           string
			Action, Resource oneOrMore
		}
	}
	if err := json.Unmarshal([]byte(policy), &document); err != nil {
		t.Fatalf("policy: %v\n%s", err, policy)
	}
	all := map[string]bool{}
	for _, s := range document.Statement {
		for _, action := range s.Action {
			for _, resource := range s.Resource {
				all[action+" on "+kindOf(resource)] = s.Effect == "Allow"
			}
		}
	}
	return all
}

// oneOrMore is how policies write lists: one value may stand for itself.
type oneOrMore []string

func (l *oneOrMore) UnmarshalJSON(text []byte) error {
	var one string
	if err := json.Unmarshal(text, &one); err == nil {
		*l = oneOrMore{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(l))
}

// kindOf is the kind of resource that an ARN names; see
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html.
func kindOf(arn string) string {
	parts := strings.SplitN(arn, ":", 6)
	kind, rest, _ := strings.Cut(parts[len(parts)-1], "/")
	switch {
	case !strings.Contains(arn, ":s3:"):
		return kind
	case rest == "":
		return "bucket"
	}
	return "objects"
}
