package checks_test

import (
	"fmt"
	"testing"

	"nstance.dev/server/config"
)

// TestALongestHoldThatDoesNotCount: max_hold is of hosts. Where the block is not enabled, who wrote it hears that it does
// nothing.
func TestALongestHoldThatDoesNotCount(t *testing.T) {
	for machine, want := range map[string]string{
		`{ "enabled": false, "max_hold": "48h" }`: "templates.t.machine.max_hold",
		`{ "max_hold": "48h" }`:                   "templates.t.machine.max_hold",
		`{ "enabled": true, "max_hold": "48h" }`:  "",
		`{ "enabled": false }`:                    "",
	} {
		text := fmt.Sprintf(`{
			"server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "subnet_pools": { "p": ["n"] } },
			"templates": { "t": { "kind": "web", "arch": "amd64", "instance_type": "x", "subnet_pool": "p",
				"userdata": { "content": "{{ .Nonce }} {{ .Machine.Policy }}" }, "machine": %s } }
		}`, machine)
		cfg, err := config.Load("test.jsonc", []byte(text), config.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, w := range cfg.Warnings {
			if w.Path == "templates.t.machine.max_hold" {
				said = w.Path
			}
		}
		if said != want {
			t.Errorf("%s: a warning at %q, want %q", machine, said, want)
		}
	}
}
