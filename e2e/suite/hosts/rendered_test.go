//go:build hosts

package hosts_test

import (
	"encoding/json"
	"os"
	"testing"

	"nstance.dev/agent/paver/render"
)

// TestM97_RenderedIsWhatWasWritten: what is rendered elsewhere from an assignment and from what nstance-paver facts prints is, byte by
// byte, what stands in the slot that was built.
func TestM97_RenderedIsWhatWasWritten(t *testing.T) {
	b := paved(t, "")
	a := b.assignment(1, pave, "1")
	order := b.path("assignment.json")
	if err := os.WriteFile(order, []byte(jsonOf(t, a)), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := b.command("facts", "-f", order).Output()
	if err != nil {
		t.Fatalf("facts: %v: %s", err, text)
	}
	host := render.Host{Machine: "node-a", StateDir: b.path("state")}
	if err := json.Unmarshal(text, &host); err != nil {
		t.Fatal(err)
	}
	plan, err := render.Render(a, host, nil)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, f := range plan.Of(render.Slot) {
		path := b.path("machines/node-a" + f.Path)
		switch {
		case f.Secret || f.Runtime:
			continue // a placeholder stands for it, or the machine writes it
		case f.Link != "":
			if link, err := os.Readlink(path); err != nil || link != f.Link {
				t.Errorf("%v: the slot has %q, %v", f, link, err)
			}
		default:
			content, err := os.ReadFile(path)
			if err != nil || string(content) != f.Content {
				t.Errorf("%v: the slot has\n%s\nand %q is rendered, %v", f, content, f.Content, err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != f.Mode.Perm() {
				t.Errorf("%v: its mode is %v, %v", f, info.Mode(), err)
			}
		}
		compared++
	}
	if compared < 15 {
		t.Errorf("only %d files were compared", compared)
	}
	t.Logf("%d files are equal", compared)
}
