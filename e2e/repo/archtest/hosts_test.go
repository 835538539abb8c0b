package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"nstance.dev/agent/paver/preflight"
)

// TestPagesOfHostsAreComplete: the page of what is written names each file that every machine has, and
// that of the policy each check.
func TestPagesOfHostsAreComplete(t *testing.T) {
	read := func(elements ...string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(append([]string{"..", "..", ".."}, elements...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	written, policy := read("docs", "hosts", "written.md"), read("docs", "hosts", "policy.md")
	files := regexp.MustCompile(`(?m)^=== (?:slot|host) (\S+)`).FindAllStringSubmatch(read("agent", "paver", "render", "testdata", "smallest.txt"), -1)
	if len(files) < 20 {
		t.Fatalf("%d files are written: the test reads the wrong file", len(files))
	}
	for _, f := range files {
		if unit := filepath.Base(f[1]); !strings.Contains(written, "`"+f[1]+"`") && !strings.Contains(written, "`"+unit+"`") && !strings.Contains(f[1], ".wants/") {
			t.Errorf("docs/hosts/written.md does not say of %s", f[1])
		}
	}
	// With an answer to each question there is each check.
	all := preflight.Facts{Network: preflight.Network{Resolution: &preflight.Answer{}, APIServer: &preflight.Answer{}, ImageSource: &preflight.Answer{}, Skew: new(time.Duration)}}
	for _, c := range preflight.Judge(all, preflight.Wants{}) {
		if !strings.Contains(policy, "| `"+c.GetId()+"` |") {
			t.Errorf("docs/hosts/policy.md does not say of the check %s", c.GetId())
		}
	}
}
