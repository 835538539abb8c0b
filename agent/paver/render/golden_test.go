package render_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"

	"nstance.dev/agent/paver/render"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// text is everything of a plan, to be read.
func text(plan render.Plan) string {
	var b strings.Builder
	for _, f := range plan.Files {
		fmt.Fprint(&b, "=== ", f)
		if f.Secret {
			b.WriteString(" secret")
		}
		if f.Runtime {
			b.WriteString(" runtime")
		}
		b.WriteString("\n" + f.Content)
		if f.Content != "" && !strings.HasSuffix(f.Content, "\n") {
			b.WriteString("\n(no line's end)\n")
		}
	}
	for _, m := range plan.Modules {
		b.WriteString("=== load module " + m + "\n")
	}
	for _, s := range plan.Sysctls {
		fmt.Fprintf(&b, "=== set /proc/sys/%s to %q optional=%t\n", s.Path, s.Value, s.Optional)
	}
	for _, d := range plan.Persist {
		fmt.Fprintf(&b, "=== keep %s wipe=%t\n", d.Path, d.Wipe)
	}
	return b.String()
}

// TestM91M99M100_Golden: what is written is exactly this, and the same each time.
func TestM91M99M100_Golden(t *testing.T) {
	for _, tt := range []struct {
		name       string
		assignment *nstancev1.MachineAssignment
		host       render.Host
		credential *nstancev1.MachineCredential
	}{
		{"smallest", assignment(), host(), nil},
		{"full", full(), fullHost(), credential()},
		{"placeholders", full(), render.Host{Machine: "node-b", StateDir: "/srv/paver"}, nil},
		{"long-name", set(func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) {
			a.NodeName, a.ProviderId = "a-node-with-a-long-name."+strings.Repeat("very-long.", 8)+"example.com", ""
		}), host(), nil},
		{"containerd-of-template", set(func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
			t.Machine.Files = []*nstancev1.MachineFile{{Path: "/etc/containerd/config.toml", Content: "version = 3\n", Mode: 0o600}}
		}), host(), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := text(rendered(t, tt.assignment, tt.host, tt.credential))
			for range 20 {
				again := proto.Clone(tt.assignment).(*nstancev1.MachineAssignment)
				if diff := cmp.Diff(got, text(rendered(t, again, tt.host, tt.credential))); diff != "" {
					t.Fatalf("equal arguments gave different files:\n%s", diff)
				}
			}
			file := filepath.Join("testdata", tt.name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-update rewrites it):\n%s", file, diff)
			}
		})
	}
}

// TestFile_PrintsNoContent: a plan in a log or an error shows no secret.
func TestFile_PrintsNoContent(t *testing.T) {
	plan := rendered(t, full(), fullHost(), credential())
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if printed := fmt.Sprintf(format, plan); strings.Contains(printed, "marked") {
			t.Errorf("%s prints a secret", format)
		}
	}
}

// TestM99_SecretsAreInSecretFilesAlone: token and pull secret are in the two files that root alone
// may read, and in no other.
func TestM99_SecretsAreInSecretFilesAlone(t *testing.T) {
	marked := map[string]bool{}
	for _, f := range rendered(t, full(), fullHost(), credential()).Files {
		if !strings.Contains(f.Content, "marked") {
			continue
		}
		marked[f.Path] = true
		if !f.Secret || f.Mode != 0o600 || f.Place != render.Slot {
			t.Errorf("%v has a secret and is not the root's of the machine alone", f)
		}
	}
	if diff := cmp.Diff(map[string]bool{render.BootstrapKubeconfig: true, render.PullSecret: true}, marked); diff != "" {
		t.Errorf("files with secrets:\n%s", diff)
	}
}
