package document_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/config/document"
)

func machineOf(t *testing.T, text string) *document.Machine {
	t.Helper()
	var m *document.Machine
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// The file of the host says every default, so that a later release with other defaults changes no host.
func TestMachine_PolicyText(t *testing.T) {
	const plain = `allow:
  operations: []
  pave: true
binds:
  allow: []
devices:
  allow: []
drift: true
images:
  prefixes: []
  publicKeys: []
  requireDigest: true
ssh:
  users: []
`
	const full = `allow:
  operations:
  - reboot
  pave: false
binds:
  allow:
  - /var/lib/data
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
	for text, want := range map[string]string{
		`null`: "", `{}`: "", `{"enabled": false, "policy": {"drift": false}}`: "",
		`{"enabled": true}`:                                          plain,
		`{"enabled": true, "policy": {}}`:                            plain,
		`{"enabled": true, "policy": {"allow": {"degraded": true}}}`: strings.Replace(plain, "allow:\n", "allow:\n  degraded: true\n", 1),
		`{"enabled": true, "policy": {"allow": {"pave": false, "operations": ["reboot"]}, "images": {"prefixes": ["registry.example.com/"], "requireDigest": false},
			"binds": {"allow": ["/var/lib/data"]}, "devices": {"allow": ["/dev/nvidia*"]}, "ssh": {"users": ["admin"]}, "drift": false}}`: full,
	} {
		if got := machineOf(t, text).PolicyText(); got != want {
			t.Errorf("%s gives\n%s\nwant\n%s", text, got, want)
		}
	}
}

func TestMachine_Hold(t *testing.T) {
	for text, want := range map[string]time.Duration{`null`: 24 * time.Hour, `{}`: 24 * time.Hour, `{"max_hold": "2h"}`: 2 * time.Hour} {
		if got := machineOf(t, text).Hold(); got.Std() != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// TestMachine_Bounds: as many entries as a list of the policy may have are taken, and one more is not.
func TestMachine_Bounds(t *testing.T) {
	for n, want := range map[int]string{64: "", 65: "policy.allow.operations: 65 entries are too many; at most 64"} {
		m := &document.Machine{Policy: &document.MachinePolicy{Allow: &document.MachineAllow{}}}
		for i := range n {
			m.Policy.Allow.Operations = append(m.Policy.Allow.Operations, fmt.Sprintf("example.com/%d", i))
		}
		got := ""
		for _, p := range m.Problems() {
			got += fmt.Sprintf("%s: %s; %s", strings.ReplaceAll(strings.Trim(fmt.Sprint(p.At), "[]"), " ", "."), p.Message, p.Remedy)
		}
		if got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
