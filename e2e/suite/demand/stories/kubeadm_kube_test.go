//go:build kube

package stories_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubeadmTakesTheReferenceTemplate: kubeadm finds nothing to say against the configuration that the reference template
// writes, with the least and with the most that a group and a machine can have; and it looks at each field.
func TestKubeadmTakesTheReferenceTemplate(t *testing.T) {
	root := filepath.Join("..", "..", "..", "..")
	kubeadm, err := filepath.Abs(filepath.Join(root, "bin", "tools", "kubeadm"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kubeadm); err != nil {
		t.Fatalf("%v: build it with `make bin/tools/kubeadm`", err)
	}
	for _, name := range []string{"kubeadm.sh", "kubeadm-most.sh"} {
		script, err := os.ReadFile(filepath.Join(root, "operator", "demand", "bootstrap", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, begins := strings.Cut(string(script), "<<'END_OF_CONFIGURATION'\n")
		configuration, _, ends := strings.Cut(rest, "END_OF_CONFIGURATION\n")
		if !begins || !ends {
			t.Fatalf("%s writes no configuration:\n%s", name, script)
		}
		for text, takes := range map[string]bool{
			configuration: true,
			strings.Replace(configuration, "nodeRegistration:", "registration:", 1): false,
		} {
			file := filepath.Join(t.TempDir(), "join.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), kubeadm, "config", "validate", "--config", file).CombinedOutput()
			if (err == nil) != takes {
				t.Errorf("%s: kubeadm takes it: %t, want %t: %s\n%s", name, err == nil, takes, out, text)
			}
		}
	}
}
