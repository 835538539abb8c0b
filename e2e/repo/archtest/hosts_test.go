package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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

// M81: what somebody asks of a machine is data: nothing on its host, and nothing of the operator, starts a shell that could
// read it.
func TestM81_NothingIsHandedToAShell(t *testing.T) {
	shell, commands := regexp.MustCompile(`^(/usr)?(/bin/)?(ba|da|z|k)?sh$`), 0
	for _, p := range packages(t) {
		if !p.under("agent") && !p.under("operator") || p.isTestSupport() {
			continue
		}
		for _, f := range files(t, p) {
			if f.test {
				continue
			}
			commands += len(uses(f.ast, "os/exec", "Command", "CommandContext"))
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if l, is := n.(*ast.BasicLit); is && l.Kind == token.STRING {
					if text, err := strconv.Unquote(l.Value); err == nil && shell.MatchString(text) {
						t.Errorf("%s names a shell: parameters and templates are data", f.at(l.Pos()))
					}
				}
				return true
			})
		}
	}
	if commands < 8 {
		t.Errorf("%d commands are started: the test looks at the wrong files", commands)
	}
}
