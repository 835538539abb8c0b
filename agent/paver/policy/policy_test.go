package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nstance.dev/agent/paver/policy"
)

// written is what the servers' configuration writes into user data, with every member.
const written = `allow:
  operations:
  - reboot
  - example.com/capture
  pave: true
binds:
  allow:
  - /srv/data
devices:
  allow:
  - /dev/nvidia*
drift: false
images:
  prefixes:
  - registry.example.com/
  publicKeys: []
  requireDigest: false
ssh:
  users:
  - admin
`

const key = `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAO2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik=
-----END PUBLIC KEY-----
`

func same(t *testing.T, want, got policy.Policy) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(policy.Images{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("policy:\n%s", diff)
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       policy.Policy
	}{
		{"nothing", "", policy.Policy{}},
		{"a comment", "# nothing\n", policy.Policy{}},
		{"what the servers write", written, policy.Policy{
			Allow:  policy.Allow{Pave: true, Operations: []string{"reboot", "example.com/capture"}},
			Images: policy.Images{Prefixes: []string{"registry.example.com/"}},
			Binds:  policy.Paths{Allow: []string{"/srv/data"}}, Devices: policy.Paths{Allow: []string{"/dev/nvidia*"}}, SSH: policy.SSH{Users: []string{"admin"}},
		}},
		{"what it does not say is strict", "allow: {operations: []}", policy.Policy{Images: policy.Images{RequireDigest: true}, Drift: true}},
		{"degraded hosts", "allow: {pave: true, degraded: true}", policy.Policy{Allow: policy.Allow{Pave: true, Degraded: true}, Images: policy.Images{RequireDigest: true}, Drift: true}},
		{"JSON", `{"allow": {"pave": true}, "drift": false}`, policy.Policy{Allow: policy.Allow{Pave: true}, Images: policy.Images{RequireDigest: true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := policy.Parse([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			same(t, tt.want, got)
		})
	}
}

func TestParse_Keys(t *testing.T) {
	p, err := policy.Parse([]byte("allow: {pave: true}\nimages:\n  publicKeys:\n  - |\n    " + strings.ReplaceAll(strings.TrimSpace(key), "\n", "\n    ") + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.Images.Keys()); n != 1 {
		t.Errorf("read %d keys", n)
	}
}

func TestParse_Refuses(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"allow: {pave: true}\nalow: {}", "alow"},
		{"allow: {pave: yes please}", "into bool"},
		{"allow: {pave: true, pave: true}", "already defined"},
		{"allow: {pave: true}\n---\nallow: {pave: true}", "one document"},
		{"- allow", "!!seq"},
		{"allow: [", ""},
		{"allow: {operations: [Reboot]}", "allow.operations[0]"},
		{"allow: {operations: [reboot, 'a b']}", "allow.operations[1]"},
		{"images: {prefixes: [registry.example.com]}", "images.prefixes[0]"},
		{"images: {publicKeys: [x]}", "images.publicKeys[0]"},
		{"binds: {allow: [srv]}", "binds.allow[0]"},
		{"binds: {allow: [/srv/../etc]}", "binds.allow[0]"},
		{"binds: {allow: ['/s*v/x']}", "binds.allow[0]"},
		{"devices: {allow: ['/dev/nvidia?']}", "devices.allow[0]"},
		{"ssh: {users: [Admin]}", "ssh.users[0]"},
		{"ssh: {users: [" + strings.TrimSuffix(strings.Repeat("a,", 33), ",") + "]}", "ssh.users: 33 entries"},
		{"# " + strings.Repeat("x", policy.MaxSize), "more than"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			p, err := policy.Parse([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v and error %v, want %s", p, err, tt.want)
			}
			same(t, policy.Policy{}, p)
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "machine-policy.yaml")
	if p, err := policy.Load(name); err != nil || p.Allow.Pave {
		t.Errorf("a missing file allows %+v, %v", p.Allow, err)
	}
	if err := os.WriteFile(name, []byte(written), 0o644); err != nil {
		t.Fatal(err)
	}
	if p, err := policy.Load(name); err != nil || !p.Allow.Pave {
		t.Errorf("the file allows %+v, %v", p.Allow, err)
	}
	if err := os.Chmod(name, 0o664); err != nil {
		t.Fatal(err)
	}
	if p, err := policy.Load(name); err == nil || p.Allow.Pave {
		t.Errorf("a file that others may write allows %+v, %v", p.Allow, err)
	}
	if _, err := policy.Load(dir); err == nil {
		t.Error("a directory is a policy")
	}
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("x: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Load(name); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("the error does not name the file: %v", err)
	}
}

// FuzzParse: what is read is valid, and what is refused allows nothing.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", written, "allow: {pave: true}", "a: &a [*a]", "allow:\n  <<: {pave: true}\n", "images: {publicKeys: ['" + strings.ReplaceAll(key, "\n", "\\n") + "']}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := policy.Parse(text)
		if err != nil {
			same(t, policy.Policy{}, p)
			return
		}
		for _, path := range append(p.Binds.Allow, p.Devices.Allow...) {
			if !strings.HasPrefix(path, "/") || strings.Contains(path, "/../") {
				t.Errorf("allows %q", path)
			}
		}
		if len(p.Images.Keys()) != len(p.Images.PublicKeys) {
			t.Errorf("%d keys of %d", len(p.Images.Keys()), len(p.Images.PublicKeys))
		}
	})
}
