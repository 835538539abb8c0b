package bootstrap

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"nstance.dev/protos/binding"
)

var update = flag.Bool("update", false, "write the golden files")

// charts is where the chart has its reference templates.
const charts = "../../charts/nstance-operator/files/bootstrap"

// reference is a template of the chart, with a directory of the files that it reads.
func reference(t *testing.T, name string) (*Template, string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(charts, name+".tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := Parse(name, string(text))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for file, content := range map[string]string{"endpoint": "192.0.2.10:6443\n", "ca-hash": "sha256:0123456789abcdef"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return parsed, dir
}

func token() (string, error) { return "abcdef.0123456789abcdef", nil }

// The reference templates render scripts that the machine takes and a shell can read.
func TestReferenceTemplates(t *testing.T) {
	least := example()
	least.Taints, least.StartupTaints, least.Vars = nil, nil, nil
	most := example()
	most.Vars = map[string]string{
		"kubeadm_cri_socket": "unix:///run/crio/crio.sock", "kubeadm_cloud_provider": "external", "kubeadm_node_ip": "192.0.2.20", "kubeadm_ignore_preflight": "Swap,SystemVerification",
		"k3s_cloud_provider": "external", "k3s_node_ip": "192.0.2.20",
	}
	for _, name := range []string{"kubeadm", "k3s"} {
		parsed, dir := reference(t, name)
		if !parsed.UsesToken() {
			t.Errorf("%s uses no join token", name)
		}
		for suffix, m := range map[string]Machine{"": least, "-most": most} {
			script, err := parsed.execute(m, dir, token)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+suffix+".sh", script)
			if kind, err := binding.KindOf(script); err != nil || kind != binding.Script {
				t.Errorf("%s%s: a machine takes it as %v, %v", name, suffix, kind, err)
			}
			lint(t, script)
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil { //nolint:gosec // it is part of the repository
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (go test ./operator/demand/bootstrap -update): -want +got:\n%s", file, diff)
	}
}

// lint has two shells read a script, and YAML what it writes.
func lint(t *testing.T, script []byte) {
	t.Helper()
	for _, shell := range []string{"sh", "bash"} {
		check := exec.Command(shell, "-n")
		check.Stdin = bytes.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s -n: %v: %s\n%s", shell, err, out, script)
		}
	}
	var parsed map[string]any
	if err := yaml.Unmarshal([]byte(written(t, script)), &parsed); err != nil || len(parsed) == 0 {
		t.Errorf("the configuration is no YAML: %v\n%s", err, script)
	}
}

// written is the configuration in a script.
func written(t *testing.T, script []byte) string {
	t.Helper()
	_, rest, begins := strings.Cut(string(script), "<<'END_OF_CONFIGURATION'\n")
	configuration, _, ends := strings.Cut(rest, "\nEND_OF_CONFIGURATION\n")
	if !begins || !ends {
		t.Fatalf("no configuration is in\n%s", script)
	}
	return configuration
}

// Whatever a variable holds, it remains a value: it ends no document and starts no command.
func FuzzReferenceTemplates(f *testing.F) {
	for _, s := range []string{"", "192.0.2.20", "a'b", "$(reboot)", "x\nEND_OF_CONFIGURATION\nreboot\n", "\"\n  - x", "{{.}}", "#", "\\", "\u2028", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsRune(s, 0) {
			t.Skip("no word of a shell has a zero byte, and quote says so")
		}
		for _, name := range []string{"kubeadm", "k3s"} {
			parsed, dir := reference(t, name)
			plain, hostile := example(), example()
			plain.Vars, hostile.Vars = map[string]string{}, map[string]string{}
			for _, key := range []string{"kubeadm_cri_socket", "kubeadm_cloud_provider", "kubeadm_node_ip", "kubeadm_ignore_preflight", "k3s_cloud_provider", "k3s_node_ip"} {
				plain.Vars[key], hostile.Vars[key] = "x", s
			}
			if s == "" {
				plain.Vars = nil
			}
			a, err := parsed.execute(plain, dir, token)
			if err != nil {
				t.Fatal(err)
			}
			b, err := parsed.execute(hostile, dir, token)
			if err != nil {
				t.Fatal(err)
			}
			if x, y := commands(t, a), commands(t, b); x != y {
				t.Errorf("%s with %q: the commands are\n%s\nand not\n%s", name, s, y, x)
			}
		}
	})
}

// commands are the words that a script would run, one after the other, by a shell in which
// commands do nothing but to say their name and how many arguments they have.
func commands(t *testing.T, script []byte) string {
	t.Helper()
	shell := exec.Command("bash", "-c", `
		for c in mktemp rm systemctl kubeadm timeout mkdir cat umask trap; do eval "$c() { echo $c \$#; }"; done
		command() { echo command; }
		PATH=/nonexistent
		eval "${1//\[ -x \/usr\/local\/bin\/k3s \]/true}"`, "bash", strings.NewReplacer(
		">\"$config\" ", "", ">/etc/rancher/k3s/config.yaml ", "", ">/etc/systemd/system/k3s-agent.service ", "").Replace(string(script)))
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, script)
	}
	return string(out)
}
