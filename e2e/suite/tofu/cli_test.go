//go:build tofu

package tofu_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"nstance.dev/e2e/env/box"
)

// programs are what `make e2e-tofu` builds.
const programs = "../../../bin"

// workspace is a folder with a configuration, and OpenTofu in it.
type workspace struct {
	t   *testing.T
	dir string
	env []string
}

func newWorkspace(t *testing.T, context string) *workspace {
	t.Helper()
	bin, err := filepath.Abs(programs)
	if err != nil {
		t.Fatal(err)
	}
	w := &workspace{t: t, dir: t.TempDir()}
	rc := filepath.Join(w.dir, "tofurc")
	w.file("tofurc", fmt.Sprintf("provider_installation {\n  dev_overrides { \"nstance-dev/nstance\" = %q }\n  direct {}\n}\n", bin))
	w.env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+rc, "NSTANCE_ADMIN_CONTEXT="+context, "CHECKPOINT_DISABLE=1")
	return w
}

func (w *workspace) file(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// tofu runs OpenTofu and demands an exit code.
func (w *workspace) tofu(code int, args ...string) string {
	w.t.Helper()
	program, err := filepath.Abs(filepath.Join(programs, "tools", "tofu"))
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(w.t.Context(), program, append([]string{"-chdir=" + w.dir}, args...)...)
	var out bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = w.env, &out, &out
	_ = cmd.Run() // the code says it
	if got := cmd.ProcessState.ExitCode(); got != code {
		w.t.Fatalf("tofu %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, out.String())
	}
	return colours.ReplaceAllString(out.String(), "")
}

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

const required = "terraform {\n  required_providers {\n    nstance = { source = \"nstance-dev/nstance\" }\n  }\n}\n"

// TestOpenTofu: the life of a group and an instance with OpenTofu itself: plan, apply, drift, import, destroy.
func TestOpenTofu(t *testing.T) {
	b, e := up(t)
	base := template(t, e)
	w := newWorkspace(t, b.ContextPath())
	main := func(size int, base string) string {
		return required + fmt.Sprintf(`
resource "nstance_group" "app" {
  key      = "app"
  template = %q
  size     = %d
  vars     = { region = "eu" }
}

resource "nstance_instance" "canary" {
  group      = nstance_group.app.key
  skip_drain = true
}

data "nstance_instances" "app" {
  group      = nstance_group.app.key
  depends_on = [nstance_instance.canary]
}

output "instances" {
  value = length(data.nstance_instances.app.instances)
}
`, base, size)
	}
	const changes = 2 // exit code of a plan that has some
	w.file("main.tf", main(1, base))
	w.tofu(0, "validate")
	w.tofu(changes, "plan", "-input=false", "-detailed-exitcode")
	if out := w.tofu(0, "apply", "-input=false", "-auto-approve"); !strings.Contains(out, "2 added") || !strings.Contains(out, "instances = 2") {
		t.Errorf("apply says\n%s", out)
	}
	w.tofu(0, "plan", "-input=false", "-detailed-exitcode")

	w.file("main.tf", main(2, base))
	if out := w.tofu(0, "apply", "-input=false", "-auto-approve"); !strings.Contains(out, "0 added, 1 changed, 0 destroyed") {
		t.Errorf("apply of another size says\n%s", out)
	}
	b.AdminOK("group", "scale", "app", "1", "--yes")
	if out := w.tofu(changes, "plan", "-input=false", "-detailed-exitcode"); !strings.Contains(out, "1 -> 2") {
		t.Errorf("plan after drift says\n%s", out)
	}
	w.tofu(0, "apply", "-input=false", "-auto-approve")

	w.tofu(0, "state", "rm", "nstance_group.app")
	w.tofu(0, "import", "nstance_group.app", box.Shard+"/app")
	w.tofu(0, "plan", "-input=false", "-detailed-exitcode")

	w.file("main.tf", main(2, "none"))
	if out := w.tofu(1, "plan", "-input=false"); !strings.Contains(out, "main.tf line") || !strings.Contains(out, "template = ") || !strings.Contains(out, `none`) {
		t.Errorf("plan with a template that does not exist says\n%s", out)
	}
	w.file("main.tf", main(2, base))
	if out := w.tofu(0, "destroy", "-input=false", "-auto-approve"); !strings.Contains(out, "2 destroyed") {
		t.Errorf("destroy says\n%s", out)
	}
	if v, text := e.look("nstance_instances", object{"group": "app"}); text != "" || strings.Contains(v.String(), "running") {
		t.Errorf("after the destroy there are %v %s", v, text)
	}
	if v, text := e.look("nstance_groups", nil); text != "" || strings.Contains(v.String(), `"app"`) {
		t.Errorf("after the destroy there are %v %s", v, text)
	}
}

// page is the reference page.
const page = "../../../docs/reference/tofu.md"

// TestPages: every configuration of the reference page is valid, OpenTofu reads its file of settings as the page
// writes it, and the modules of deploy/ are formatted.
func TestPages(t *testing.T) {
	var settings string
	var whole, parts []string
	for _, block := range hclOf(t, page) {
		switch {
		case strings.HasPrefix(block, "provider_installation"):
			settings = block
		case strings.HasPrefix(block, "terraform {"):
			whole = append(whole, block)
		default:
			parts = append(parts, block)
		}
	}
	if settings == "" || len(whole) != 1 || len(parts) < 2 {
		t.Fatalf("the page has %d whole configurations and %d parts of one, and as settings %q", len(whole), len(parts), settings)
	}
	bin, err := filepath.Abs(programs)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorkspace(t, "")
	w.file("tofurc", strings.Replace(settings, "/path/to/nstance/bin", bin, 1))
	for _, text := range append(whole, required+strings.Join(parts, "\n")) {
		w.file("main.tf", text)
		w.tofu(0, "validate")
		w.file("main.tf", strings.Replace(text, "template ", "templete ", 1))
		if out := w.tofu(1, "validate"); !strings.Contains(out, "templete") {
			t.Errorf("validate of a misspelt attribute says\n%s", out)
		}
	}
	modules, err := filepath.Abs("../../../deploy/terraform")
	if err != nil {
		t.Fatal(err)
	}
	w.tofu(0, "fmt", "-check", "-recursive", "-diff", modules)
}

// hclOf is the blocks of a page that are configurations of OpenTofu.
func hclOf(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, after := range strings.Split(string(text), "```hcl\n")[1:] {
		block, _, _ := strings.Cut(after, "```")
		blocks = append(blocks, block)
	}
	return blocks
}
