package bootstrap

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"nstance.dev/protos/binding"
)

// The values for EKS that the page shows render a script that the machine takes and a shell can read, with taints and
// without, and ask for no token.
func TestTheTemplateForEKSOfThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "demand", "bootstrap.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### EKS\n")
	_, block, begins := strings.Cut(section, "   ```yaml\n")
	block, _, ends := strings.Cut(block, "   ```\n")
	if !begins || !ends {
		t.Fatal("the page shows no values for EKS")
	}
	var values struct {
		Demand struct {
			BootstrapTemplate string            `yaml:"bootstrapTemplate"`
			BootstrapFiles    map[string]string `yaml:"bootstrapFiles"`
		}
	}
	if err := yaml.Unmarshal([]byte(block), &values); err != nil {
		t.Fatal(err)
	}
	parsed, err := Parse("eks", values.Demand.BootstrapTemplate)
	if err != nil {
		t.Fatal(err)
	}
	if parsed.UsesToken() {
		t.Error("it uses a join token")
	}
	dir := t.TempDir()
	for file, content := range values.Demand.BootstrapFiles {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	least, most := example(), example()
	least.Taints, least.StartupTaints = nil, nil
	for _, m := range []Machine{least, most} {
		script, err := parsed.execute(m, dir, token)
		if err != nil {
			t.Fatal(err)
		}
		if kind, err := binding.KindOf(script); err != nil || kind != binding.Script {
			t.Errorf("a machine takes it as %v, %v", kind, err)
		}
		lint(t, script)
		var config struct {
			Spec struct {
				Cluster map[string]string
				Kubelet struct {
					Config struct {
						Taints []map[string]string `yaml:"registerWithTaints"`
					}
					Flags []string
				}
			}
		}
		if err := yaml.Unmarshal([]byte(written(t, script)), &config); err != nil {
			t.Fatal(err)
		}
		kubelet := config.Spec.Kubelet
		if len(config.Spec.Cluster) != 4 || len(kubelet.Flags) != 1 || len(kubelet.Config.Taints) != len(m.Taints)+len(m.StartupTaints) {
			t.Errorf("it says %+v", config.Spec)
		}
		for _, taint := range kubelet.Config.Taints {
			if taint["key"] == "" || taint["effect"] == "" {
				t.Errorf("not a taint as the kubelet writes it: %v", taint)
			}
		}
	}
}
