// Package configtest has the documents, groups and golden files that tests of the packages of the
// configuration share.
package configtest

import (
	"bytes"

	"nstance.dev/server/config"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"

	_ "embed"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nstance.dev/server/driver"
)

//go:embed full.jsonc
var full []byte

// Full is a document that has every member that there is.
func Full() []byte { return slices.Clone(full) }

// LoadFull loads the document that has everything.
func LoadFull(t testing.TB) *effective.Config {
	t.Helper()
	cfg, err := config.Load("full.jsonc", full, config.LoadOptions{Shard: "us-west-2a", Storage: "s3"})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Minimal is the least that a document says.
const Minimal = `{
  "server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "subnet_pools": { "p": ["n"] } }
}`

// Rules are those of a provider that knows the architectures of some types.
var Rules = &driver.Rules{
	Kind: "aws", ForbiddenArgs: []string{"UserData"},
	CheckInstanceType: func(typ, arch string) error {
		if strings.HasPrefix(typ, "t4g.") == (arch == "arm64") {
			return nil
		}
		if strings.HasPrefix(typ, "odd.") {
			return driver.ErrUnknownType
		}
		return fmt.Errorf("%s is not of architecture %s", typ, arch)
	},
}

// OwnedRules leave tenants one argument, Plain.
var OwnedRules = &driver.Rules{TenantArgs: []string{"Plain"}}

var update = flag.Bool("update", false, "write the golden files anew")

// Golden compares with a golden file, or writes it.
func Golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update writes it anew):\n%s", path, diff)
	}
}

// SharedConfig is a shard with the default tenant and others named t1, t2, ….
func SharedConfig(t testing.TB, others int) *effective.Config {
	t.Helper()
	var tenants []string
	open := []string{`"default"`}
	for i := range others {
		tenants = append(tenants, fmt.Sprintf(`"t%d": {}`, i+1))
		open = append(open, fmt.Sprintf(`"t%d"`, i+1))
	}
	text := fmt.Sprintf(`{
		"server": {
			"cluster_id": "c", "shard": "s", "provider": {"kind": "local", "zone": "z"},
			"secrets": {"provider": "object-storage"}, "subnet_pools": {"p": ["n"]},
		},
		"tenants": {%s},
		"templates": {"plain": {"kind": "vmx", "arch": "amd64", "instance_type": "small", "subnet_pool": "p", "userdata": {"content": "{{ .Nonce }}"}, "tenants": [%s]}},
		"groups": {"default": {"fixed": {"template": "plain", "size": 1, "args": {"a": "b"}}}},
	}`, strings.Join(tenants, ", "), strings.Join(open, ", "))
	cfg, err := config.Load("test.jsonc", []byte(text), config.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// FileWith is a group file with one entry.
func FileWith(tenant, key string, g groupfile.Entry) *groupfile.File {
	f := &groupfile.File{V: 1}
	f.Set(tenant, key, g)
	return f
}

// SetIn changes a member of a map in place.
func SetIn[V any](m map[string]V, key string, change func(*V)) {
	v := m[key]
	change(&v)
	m[key] = v
}

// Size is a number that is set.
func Size(n int) *int { return &n }

// Reread checks that the next leader reads what the file says (S24).
func Reread(t rapid.TB, file *groupfile.File) *groupfile.File {
	t.Helper()
	data, err := groupfile.Encode(file)
	if err != nil {
		t.Fatalf("what was accepted can't be written: %v", err)
	}
	again, err := groupfile.Decode("g", data)
	if err != nil {
		t.Fatalf("what was accepted can't be read: %v", err)
	}
	second, err := groupfile.Encode(again)
	if err != nil || !bytes.Equal(data, second) {
		t.Fatalf("read again and written again it is not the same (%v):\n%s\n%s", err, data, second)
	}
	return again
}

// Owned is a shard of three tenants in which "ours" and "lb-ours" are used by the default
// tenant alone, "listed" and "lb-listed" are open to b, and tenant d has a pool of its own.
const Owned = `{
  "server": {
    "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "admin_tenants": ["boss"],
    "subnet_pools": { "p": ["n"], "q": ["m"], "secret-pool": ["o"] }, "dynamic_subnet_pools": ["p", "q"]
  },
  "tenants": { "b": {}, "boss": {}, "d": { "subnet_pools": ["secret-pool"] } },
  "load_balancers": { "lb-ours": { "provider": "local" }, "lb-listed": { "provider": "local", "tenants": ["b"] } },
  "templates": {
    "ours": { "kind": "aaa", "arch": "amd64", "instance_type": "small", "subnet_pool": "p" },
    "listed": { "kind": "bbb", "arch": "amd64", "instance_type": "small", "subnet_pool": "p", "tenants": ["b", "d"], "api_args": ["Allowed"] }
  },
  "groups": { "default": { "g": { "template": "ours", "size": 1, "load_balancers": ["lb-ours"] } } }
}`

// LoadOwned loads a document whose provider leaves tenants one argument.
func LoadOwned(t testing.TB, text string) *effective.Config {
	t.Helper()
	cfg, err := config.Load("x.jsonc", []byte(text), config.LoadOptions{Rules: OwnedRules})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Shared is a configuration with tenants and what else the server has to say.
func Shared(tenants, server string) string {
	return fmt.Sprintf(`{
  "server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "subnet_pools": { "p": ["n"], "q": ["m"] }%s },
  "tenants": {%s}
}`, server, tenants)
}
