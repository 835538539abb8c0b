package archtest

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nstance.dev/agent/paver/policy"
	"nstance.dev/server/config/document"
)

// TestHostsUnderstandTheirPolicy: what a server's configuration says of a host's policy, and user data
// writes to it, is read by the host as it was meant.
func TestHostsUnderstandTheirPolicy(t *testing.T) {
	strict := func(change func(p *policy.Policy)) policy.Policy {
		p := policy.Policy{Allow: policy.Allow{Pave: true}, Images: policy.Images{RequireDigest: true}, Drift: true}
		change(&p)
		return p
	}
	for text, want := range map[string]policy.Policy{
		`{"enabled": false}`: {},
		`{"enabled": true}`:  strict(func(*policy.Policy) {}),
		`{"enabled": true, "policy": {"allow": {"pave": false, "operations": ["reboot", "example.com/capture"]}, "drift": false}}`: {
			Allow: policy.Allow{Operations: []string{"reboot", "example.com/capture"}}, Images: policy.Images{RequireDigest: true},
		},
		`{"enabled": true, "policy": {"allow": {"degraded": true}, "images": {"prefixes": ["registry.example.com/", "storage:/images/", "http://deb.example.com/"], "requireDigest": false},
			"binds": {"allow": ["/srv/data", "/mnt/disk*"]}, "devices": {"allow": ["/dev/nvidia*"]}, "ssh": {"users": ["admin"]}}}`: strict(func(p *policy.Policy) {
			p.Allow.Degraded = true
			p.Images = policy.Images{Prefixes: []string{"registry.example.com/", "storage:/images/", "http://deb.example.com/"}}
			p.Binds.Allow, p.Devices.Allow, p.SSH.Users = []string{"/srv/data", "/mnt/disk*"}, []string{"/dev/nvidia*"}, []string{"admin"}
		}),
	} {
		var m *document.Machine
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		if problems := m.Problems(); len(problems) > 0 {
			t.Errorf("%s is refused: %v", text, problems)
		}
		got, err := policy.Parse([]byte(m.PolicyText()))
		if err != nil {
			t.Errorf("%s: %v\n%s", text, err, m.PolicyText())
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(policy.Images{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s is read as another policy:\n%s", text, diff)
		}
	}
}
