package settings_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/agent/paver/render"
	"nstance.dev/agent/paver/settings"
)

type host struct {
	t        *testing.T
	h        settings.Host
	root     string
	loaded   []string
	reloaded int
}

func newHost(t *testing.T) *host {
	host := &host{t: t, root: t.TempDir()}
	for path, content := range map[string]string{
		"proc/sys/kernel/panic": "0\n", "proc/sys/net/ipv4/ip_forward": "0\n", "sys/module/overlay/x": "", "etc/passwd": "",
	} {
		host.write(path, content)
	}
	host.h = settings.Host{
		Root: host.root,
		Load: func(_ context.Context, module string) error {
			host.loaded = append(host.loaded, module)
			if module == "missing" {
				return errors.New("no such module")
			}
			return nil
		},
		Reload: func(context.Context) error { host.reloaded++; return nil },
	}
	return host
}

func (h *host) write(path, content string) {
	path = filepath.Join(h.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) read(path string) string {
	text, err := os.ReadFile(filepath.Join(h.root, path))
	if err != nil {
		return ""
	}
	return string(text)
}

func plan() render.Plan {
	return render.Plan{
		Files: []render.File{
			{Place: render.OnHost, Path: render.SysctlFile, Mode: 0o644, Content: "kernel.panic = 10\n"},
			{Place: render.OnHost, Path: render.SSHDropIn, Mode: 0o644, Content: "AuthorizedKeysFile x\n"},
			{Place: render.OnHost, Path: render.SSHDir + "/admin", Mode: 0o644, Content: "ssh-ed25519 A\n"},
			{Place: render.OnHost, Path: render.NspawnFile("node-a"), Mode: 0o644, Content: "[Exec]\n"},
			{Place: render.OnHost, Path: render.DropIn("node-a"), Mode: 0o644, Content: "[Service]\n"},
			{Place: render.Slot, Path: "/etc/hostname", Mode: 0o644, Content: "n1\n"},
		},
		Modules: []string{"overlay", "br_netfilter", "missing"},
		Sysctls: []render.Setting{
			{Name: "kernel.panic", Path: "kernel/panic", Value: "10"}, {Name: "net.ipv4.ip_forward", Path: "net/ipv4/ip_forward", Value: "1"},
			{Name: "net.bridge.x", Path: "net/bridge/x", Value: "1"},
		},
		Persist: []render.Directory{{Path: "/var/lib/nstance-paver/persist/logs"}, {Path: "/var/lib/nstance-paver/persist/scratch", Wipe: true}},
	}
}

func TestSettingsAreMadeAndTakenBack(t *testing.T) {
	h := newHost(t)
	before, err := h.h.Values(plan().Sysctls)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"kernel/panic": "0", "net/ipv4/ip_forward": "0"}, before); diff != "" {
		t.Error(diff)
	}
	for range 2 {
		warnings, err := h.h.Apply(t.Context(), plan())
		if err != nil {
			t.Fatal(err)
		}
		if len(warnings) != 2 || !strings.Contains(warnings[0], "missing") || !strings.Contains(warnings[1], "net.bridge.x") {
			t.Errorf("warnings: %q", warnings)
		}
	}
	if h.read("proc/sys/kernel/panic") != "10\n" || h.read("proc/sys/net/ipv4/ip_forward") != "1\n" || h.read(render.SysctlFile) == "" || h.read("etc/hostname") != "" {
		t.Error("the host is not as the plan says")
	}
	if slices.Contains(h.loaded, "overlay") || !slices.Contains(h.loaded, "br_netfilter") {
		t.Errorf("loaded: %v", h.loaded)
	}
	if h.reloaded != 1 {
		t.Errorf("sshd read its configuration %d times", h.reloaded)
	}
	for range 2 {
		if err := h.h.Restore(t.Context(), before, "node-a", "node-b"); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{render.SysctlFile, render.SSHDropIn, render.SSHDir, render.NspawnFile("node-a"), filepath.Dir(render.DropIn("node-a"))} {
		if _, err := os.Lstat(filepath.Join(h.root, path)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	if h.read("proc/sys/kernel/panic") != "0\n" {
		t.Error("a parameter was not set back")
	}
	if _, err := os.Stat(filepath.Join(h.root, "etc/passwd")); err != nil {
		t.Error(err)
	}
}

// TestM100_KeysOfAUserWhoHasNoneGo: with the plan that has none.
func TestM100_KeysOfAUserWhoHasNoneGo(t *testing.T) {
	h := newHost(t)
	h.write(render.SSHDir+"/former", "ssh-ed25519 B\n")
	if _, err := h.h.Apply(t.Context(), plan()); err != nil {
		t.Fatal(err)
	}
	if h.read(render.SSHDir+"/former") != "" || h.read(render.SSHDir+"/admin") != "ssh-ed25519 A\n" {
		t.Error("the keys are not those of the plan")
	}
}

// TestM100_NothingOfTheDaemonIsLeftWithTheLastKey: with it goes what makes sshd read them.
func TestM100_NothingOfTheDaemonIsLeftWithTheLastKey(t *testing.T) {
	h := newHost(t)
	h.write(render.SSHDir+"/admin", "ssh-ed25519 A\n")
	h.write(render.SSHDropIn, "Match User admin\n")
	for range 2 {
		if _, err := h.h.Apply(t.Context(), render.Plan{}); err != nil {
			t.Fatal(err)
		}
	}
	if h.read(render.SSHDir+"/admin") != "" || h.read(render.SSHDropIn) != "" || h.reloaded != 1 {
		t.Errorf("%q, %q; sshd was told %d times", h.read(render.SSHDir+"/admin"), h.read(render.SSHDropIn), h.reloaded)
	}
}

// What is tried is put back, and what does not exist is no refusal.
func TestTry(t *testing.T) {
	h := newHost(t)
	h.write("proc/sys/vm/swappiness", "60\n")
	p := render.Plan{Sysctls: []render.Setting{
		{Name: "kernel.panic", Path: "kernel/panic", Value: "10"}, {Name: "net.gone", Path: "net/gone", Value: "1"}, {Name: "vm.swappiness", Path: "vm/swappiness", Value: "60"},
	}}
	left, err := h.h.Try(p)
	if err != nil || len(left) > 0 || h.read("proc/sys/kernel/panic") != "0\n" {
		t.Errorf("%q, %v, kernel.panic is %q", left, err, h.read("proc/sys/kernel/panic"))
	}
	path := filepath.Join(h.root, "proc/sys/vm/swappiness")
	if err := errors.Join(os.Remove(path), os.Symlink("/proc/self/stat", path)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.h.Try(p); err == nil || !strings.Contains(err.Error(), "set sysctl vm.swappiness") {
		t.Errorf("a parameter that cannot be set: %v", err)
	}
}

func TestDirectoriesThatSurvive(t *testing.T) {
	h := newHost(t)
	if _, err := h.h.Apply(t.Context(), plan()); err != nil {
		t.Fatal(err)
	}
	const logs, scratch = "var/lib/nstance-paver/persist/logs/x", "var/lib/nstance-paver/persist/scratch/x"
	h.write(logs, "kept")
	h.write(scratch, "gone")
	if err := h.h.Wipe(plan()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.h.Apply(t.Context(), plan()); err != nil {
		t.Fatal(err)
	}
	if h.read(logs) != "kept" || h.read(scratch) != "" {
		t.Errorf("%q, %q", h.read(logs), h.read(scratch))
	}
	if info, err := os.Stat(filepath.Join(h.root, filepath.Dir(scratch))); err != nil || !info.IsDir() {
		t.Errorf("it does not exist for the next machine: %v", err)
	}
}
