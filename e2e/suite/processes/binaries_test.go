package processes_test

import (
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"nstance.dev/e2e/env/box"
)

var programs = []string{
	"nstance-server-local", "nstance-server-aws", "nstance-server-gcp", "nstance-server-proxmox", "nstance-agent", "nstance-admin",
}

func TestBinaries_AreStatic(t *testing.T) {
	t.Parallel()
	for _, name := range programs {
		f, err := elf.Open(box.Binary(t, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range f.Progs {
			if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
				t.Errorf("%s is linked dynamically: it has a %s", name, part.Type)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestBinaries_AgentHasAtMostFifteenMegabytes(t *testing.T) {
	t.Parallel()
	info, err := os.Stat(box.Binary(t, "nstance-agent"))
	if err != nil {
		t.Fatal(err)
	}
	const most = 15_000_000
	t.Logf("measured: nstance-agent has %d bytes (bound %d)", info.Size(), most)
	if info.Size() > most {
		t.Errorf("nstance-agent has %d bytes, and must have %d at most", info.Size(), most)
	}
}

// What a program links is what it was built of; storage and secrets clients of a
// cloud are fine in a server.
func TestBinaries_LinkNoOtherComputeSDK(t *testing.T) {
	t.Parallel()
	aws := []string{
		"github.com/aws/aws-sdk-go-v2/service/ec2", "github.com/aws/aws-sdk-go-v2/service/autoscaling",
		"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2",
	}
	google, proxmox := []string{"cloud.google.com/go/compute"}, []string{"github.com/luthermonson/go-proxmox"}
	anyCloud := []string{"github.com/aws/", "cloud.google.com/", "google.golang.org/api", "github.com/luthermonson/", "k8s.io/", "modernc.org/"}
	for name, banned := range map[string][]string{
		"nstance-server-local":   slices.Concat(aws, google, proxmox),
		"nstance-server-aws":     slices.Concat(google, proxmox),
		"nstance-server-gcp":     slices.Concat(aws, proxmox),
		"nstance-server-proxmox": slices.Concat(aws, google),
		"nstance-agent":          anyCloud,
	} {
		info, err := buildinfo.ReadFile(box.Binary(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if len(info.Deps) == 0 {
			t.Errorf("%s does not say what it was built of", name)
		}
		for _, module := range info.Deps {
			for _, prefix := range banned {
				if module.Path == prefix || strings.HasPrefix(module.Path, strings.TrimSuffix(prefix, "/")+"/") && module.Path != "cloud.google.com/go/compute/metadata" {
					t.Errorf("%s links %s", name, module.Path)
				}
			}
		}
	}
}

func TestBinaries_ExplainThemselves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command string
		words   []string
	}{
		{"nstance-admin --help", []string{"group", "instance", "shard", "config", "cluster", "version", "completion"}},
		{"nstance-admin group scale --help", []string{"--wait", "--timeout", "--context"}},
		{"nstance-server-local --help", []string{"serve", "dev", "version"}},
		{"nstance-server-aws serve --help", []string{"--id", "--bind-host"}},
		{"nstance-server-gcp serve --help", []string{"--id", "--bind-host"}},
		{"nstance-server-proxmox serve --help", []string{"--id", "--bind-host"}},
		{"nstance-server-local dev --help", []string{"--dir", "--size", "--group", "--keep", "--plain"}},
		{"nstance-server-local serve --help", []string{"--id", "--shard", "--storage", "--bucket", "--cachedir"}},
	} {
		args := strings.Fields(c.command)
		out, err := exec.Command(box.Binary(t, args[0]), args[1:]...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v", c.command, err)
		}
		for _, word := range c.words {
			if !strings.Contains(string(out), word) {
				t.Errorf("%s does not mention %s:\n%s", c.command, word, out)
			}
		}
	}
}

func TestBinaries_WrongUsageEndsWithCodeTwo(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"nstance-admin nonsense", "nstance-admin group scale web many", "nstance-admin group list --nonsense",
		"nstance-server-local nonsense", "nstance-server-local serve", "nstance-server-local dev --size many", "nstance-server-local dev more",
	} {
		args := strings.Fields(command)
		cmd := exec.Command(box.Binary(t, args[0]), args[1:]...)
		out, _ := cmd.CombinedOutput() // the exit code says it
		if code := cmd.ProcessState.ExitCode(); code != 2 {
			t.Errorf("%s: exit code %d, not 2\n%s", command, code, out)
		}
	}
}
