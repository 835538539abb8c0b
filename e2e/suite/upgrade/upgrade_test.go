//go:build upgrade

package upgrade_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/repo/chart"
)

const (
	programs = "../../../bin"
	// earlier has the programs of the earlier release, and its sources in src.
	earlier = "../../../bin/earlier"

	group = "web"
	lease = 5 * time.Second
)

// earlierPrograms is where the programs of the earlier release are.
func earlierPrograms(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(earlier)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "nstance-server-local")); err != nil {
		t.Fatalf("%v: build it with `make test-upgrade`", err)
	}
	return dir
}

// fleet is a cluster of the earlier release: its configuration, its keys, its group file,
// its records and its machines.
func fleet(t *testing.T, size int) *box.Box {
	t.Helper()
	b := box.New(t)
	b.From(earlierPrograms(t))
	dev := b.Dev(size)
	b.Await("the earlier release runs a cluster", func() error { return b.Settled(group, size, time.Time{}) })
	b.SetConfig(b.Patient(b.Config(), lease))
	dev.Kill()
	return b
}

// TestS16_S18_ReleasesTakeOverFromEachOther: a server of this tree takes over from one of
// the earlier release and the other way round. No machine is lost, made twice or replaced,
// and each can change what the other wrote.
func TestS16_S18_ReleasesTakeOverFromEachOther(t *testing.T) {
	const size = 3
	b := fleet(t, size)
	before, seen := b.Machines(), b.Watch()

	b.From(earlierPrograms(t))
	old := b.Serve("earlier")
	b.Await("the earlier release leads", func() error { return b.Settled(group, size, time.Time{}) })
	b.From("")
	now := b.Serve("new")
	old.Kill()
	killed := time.Now()
	b.Await("the new release leads", func() error { return b.Settled(group, size, killed) })
	unharmed(t, b, before)
	b.Await("the new release takes a size", func() error { return b.Scale(group, size+1) })
	b.Await("the new release makes a machine", func() error { return b.Settled(group, size+1, time.Time{}) })
	host := before[0].ID
	if err := b.Assign(host); err != nil {
		t.Fatal(err)
	}
	assigned, err := b.Assigned(host)
	if err != nil || assigned == "" {
		t.Fatalf("assignment %q, %v", assigned, err)
	}

	b.From(earlierPrograms(t))
	old = b.Serve("earlier-again")
	now.Kill()
	killed = time.Now()
	b.Await("the earlier release leads again", func() error { return b.Settled(group, size+1, killed) })
	unharmed(t, b, before)
	b.Await("the earlier release takes a size", func() error { return b.Scale(group, size+2) })
	b.Await("the earlier release makes a machine", func() error { return b.Settled(group, size+2, time.Time{}) })

	b.From("")
	b.Serve("new-again")
	old.Stop(t)
	killed = time.Now()
	b.Await("the new release leads again", func() error { return b.Settled(group, size+2, killed) })
	unharmed(t, b, before)
	if after, err := b.Assigned(host); err != nil || after != assigned {
		t.Errorf("after an earlier release has led the assignment of %s is %q, %v, want %q", host, after, err, assigned)
	}
	if wrong := seen().Wrong; len(wrong) > 0 {
		t.Errorf("while servers changed: %v", wrong)
	}

	b.Await("the new release takes a smaller size", func() error { return b.Scale(group, 1) })
	b.Await("what the earlier release made is removed", func() error { return b.Settled(group, 1, time.Time{}) })
}

// unharmed fails the test if one of the machines has gone or runs as another process.
func unharmed(t *testing.T, b *box.Box, before []box.Machine) {
	t.Helper()
	now := b.Machines()
	for _, m := range before {
		if !slices.ContainsFunc(now, func(o box.Machine) bool { return o.ID == m.ID && o.PID == m.PID }) {
			t.Errorf("%s is gone; there are %v", m, now)
		}
	}
}

// refused are the configurations that were valid and are refused now, with the lines that the
// changelog gives for each message.
var refused = map[string]struct {
	messages int
	lines    *strings.Replacer
}{
	"server/config/testdata/full.jsonc": {3, strings.NewReplacer(
		`"uri": ["nstance://`, `"uri": ["example://`,
		`"kind": "knc", "arch": "arm64",`, `"kind": "knc", "arch": "arm64", "api_args": ["certificates.kubelet.client", "files.motd"],`,
	)},
}

// TestConfigurationsOfTheEarlierRelease: what was valid is valid, or is refused with the line
// that brings it back.
func TestConfigurationsOfTheEarlierRelease(t *testing.T) {
	validate := func(dir, path string) (string, bool) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "nstance-admin"), "config", "validate", path).CombinedOutput()
		return string(out), err == nil
	}
	var tried int
	for _, pattern := range []string{"server/config/testdata/*.jsonc", "server/config/configtest/*.jsonc", "deploy/*/*.jsonc"} {
		paths, err := filepath.Glob(filepath.Join(earlier, "src", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if _, valid := validate(earlierPrograms(t), path); !valid {
				continue
			}
			tried++
			out, valid := validate(programs, path)
			name, err := filepath.Rel(filepath.Join(earlier, "src"), path)
			if err != nil {
				t.Fatal(err)
			}
			known, refuses := refused[filepath.ToSlash(name)]
			switch {
			case !refuses && !valid:
				t.Errorf("%s was valid and is not:\n%s", path, out)
			case refuses && strings.Count(out, path+":") != known.messages:
				t.Errorf("%s is refused with other messages than %d that the changelog has:\n%s", path, known.messages, out)
			case refuses:
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				mended := filepath.Join(t.TempDir(), "mended.jsonc")
				if err := os.WriteFile(mended, []byte(known.lines.Replace(string(text))), 0o600); err != nil {
					t.Fatal(err)
				}
				if out, valid := validate(programs, mended); !valid {
					t.Errorf("%s with the lines of the changelog is not valid:\n%s", path, out)
				}
			}
		}
	}
	if tried == 0 {
		t.Fatal("the earlier release calls none of its own configurations valid")
	}
}

// TestChartValuesOfTheEarlierRelease: the chart renders with the values that an installation
// of the earlier release has, which are its defaults and what everybody must give.
func TestChartValuesOfTheEarlierRelease(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(earlier, "src", "operator/charts/nstance-operator/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	config, ok := values["config"].(map[string]any)
	if !ok {
		t.Fatalf("config of the values is %v", values["config"])
	}
	config["clusterId"] = "example"
	config["shards"] = map[string]any{"us-west-2a": map[string]any{"operator_addr": "10.0.0.1:8993"}}
	if _, err := chart.Render("../../../operator/charts/nstance-operator", chart.Release{Name: "nstance-operator", Namespace: "nstance"}, values); err != nil {
		t.Error(err)
	}
}
