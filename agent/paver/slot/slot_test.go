package slot_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/render"
	"nstance.dev/agent/paver/slot"
)

const hash = "sha256:aa"

type host struct {
	t     *testing.T
	slots slot.Slots
	root  string
}

func newHost(t *testing.T) host {
	h := host{t, slot.Slots{Machines: filepath.Join(t.TempDir(), "machines")}, filepath.Join(t.TempDir(), "root")}
	for path, content := range map[string]string{"usr/bin/kubelet": "program", "etc/os-release": "ID=test", "run/x": "", "var/lib/x": ""} {
		h.write(filepath.Join(h.root, path), content)
	}
	if err := os.Mkdir(h.slots.Machines, 0o700); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h host) write(path, content string) {
	h.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		h.t.Fatal(err)
	}
}

func (h host) read(path string) string {
	text, err := os.ReadFile(filepath.Join(h.slots.Path(journal.A), path))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (h host) contents(epoch int64) slot.Contents {
	return slot.Contents{Root: h.root, Hash: hash, Epoch: epoch, Files: []render.File{
		{Place: render.Slot, Path: "/etc/nstance/epoch", Mode: 0o644, Content: string(rune('0' + epoch))},
		{Place: render.Slot, Path: "/etc/enabled", Link: "/usr/lib/unit"},
		{Place: render.Slot, Path: "/etc/kubernetes/pki/ca.crt", Mode: 0o600, Content: "ca", Secret: true},
		{Place: render.OnHost, Path: "/etc/on-the-host", Mode: 0o644},
	}}
}

func (h host) names() string {
	entries, err := os.ReadDir(h.slots.Machines)
	if err != nil {
		h.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestASlotIsBuilt(t *testing.T) {
	h := newHost(t)
	for epoch := int64(1); epoch < 4; epoch++ {
		c := h.contents(epoch)
		c.Install = func(_ context.Context, dir string) error {
			return os.WriteFile(filepath.Join(dir, "usr/bin/runc"), []byte("installed"), 0o755)
		}
		if err := h.slots.Build(t.Context(), journal.A, c); err != nil {
			t.Fatal(err)
		}
		m, ok := h.slots.Marker(t.Context(), journal.A)
		if !ok || m.Hash != hash || m.Epoch != epoch {
			t.Errorf("marker %+v, %v", m, ok)
		}
		h.write(filepath.Join(h.slots.Path(journal.A), "var/lib/of-the-machine"), "")
	}
	if h.read("etc/nstance/epoch") != "3" || h.read("usr/bin/runc") != "installed" || h.read("usr/bin/kubelet") != "program" {
		t.Errorf("epoch %q", h.read("etc/nstance/epoch"))
	}
	if target, err := os.Readlink(filepath.Join(h.slots.Path(journal.A), "etc/enabled")); err != nil || target != "/usr/lib/unit" {
		t.Errorf("link to %q, %v", target, err)
	}
	if got := h.read("etc/on-the-host"); !strings.Contains(got, "no such file") {
		t.Errorf("a file of the host is in the slot: %q", got)
	}
	if got := h.names(); got != "node-a" {
		t.Errorf("left over: %s", got)
	}
	if h.slots.Size(t.Context(), journal.A) == 0 || h.slots.Size(t.Context(), journal.B) != 0 {
		t.Error("a slot has no size, or an empty one has")
	}
	if err := errors.Join(h.slots.Remove(journal.A), h.slots.Remove(journal.A)); err != nil || h.names() != "" {
		t.Errorf("after the removal: %s, %v", h.names(), err)
	}
}

// TestM57_ABuildThatFailsLeavesWhatWasThere: whatever it fails of.
func TestM57_ABuildThatFailsLeavesWhatWasThere(t *testing.T) {
	h := newHost(t)
	if err := h.slots.Build(t.Context(), journal.A, h.contents(1)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*slot.Contents){
		"no root": func(c *slot.Contents) { c.Root = filepath.Join(h.root, "missing") },
		"no artifact": func(c *slot.Contents) {
			c.Install = func(context.Context, string) error { return errors.New("no luck") }
		},
		"a file in the place of a directory": func(c *slot.Contents) {
			c.Files = append(c.Files, render.File{Place: render.Slot, Path: "/usr/bin/kubelet/x"})
		},
	} {
		c := h.contents(2)
		change(&c)
		if err := h.slots.Build(t.Context(), journal.A, c); err == nil {
			t.Errorf("%s: it was built", name)
		}
		if m, ok := h.slots.Marker(t.Context(), journal.A); !ok || m.Epoch != 1 {
			t.Errorf("%s: %+v, %v", name, m, ok)
		}
		if got := h.names(); got != "node-a" {
			t.Errorf("%s: what was half made is left: %s", name, got)
		}
	}
	h.write(filepath.Join(h.slots.Path(journal.A), "opt/cni/bin/plugin"), "") // of a Pod
	if _, ok := h.slots.Marker(t.Context(), journal.A); !ok {
		t.Error("a plugin that a Pod has brought makes the marker void")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.slots.Build(ctx, journal.A, h.contents(2)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	h.write(filepath.Join(h.slots.Machines, "node-a.old-3/usr/x"), "") // of a crash
	h.write(filepath.Join(h.slots.Machines, "node-ax"), "")
	if err := h.slots.Sweep(); err != nil || h.names() != "node-a node-ax" {
		t.Errorf("after the sweep: %s, %v", h.names(), err)
	}
}

// A crash between the two renames leaves no slot, and the next build makes one.
func TestABuildAfterACrashBetweenItsRenames(t *testing.T) {
	h := newHost(t)
	if err := h.slots.Build(t.Context(), journal.A, h.contents(1)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(h.slots.Path(journal.A), h.slots.Path(journal.A)+".old-0"); err != nil {
		t.Fatal(err)
	}
	if m, ok := h.slots.Marker(t.Context(), journal.A); ok {
		t.Errorf("%+v vouches for nothing", m)
	}
	if err := errors.Join(h.slots.Build(t.Context(), journal.A, h.contents(2)), h.slots.Sweep()); err != nil || h.names() != "node-a" {
		t.Errorf("%s, %v", h.names(), err)
	}
}

// TestM39_ASlotIsRefreshed: what the last machine has made of its own is gone, programs are as
// they were.
func TestM39_ASlotIsRefreshed(t *testing.T) {
	h := newHost(t)
	if err := h.slots.Build(t.Context(), journal.A, h.contents(1)); err != nil {
		t.Fatal(err)
	}
	tree := h.slots.Path(journal.A)
	outside := filepath.Join(t.TempDir(), "outside")
	h.write(outside, "as it was")
	h.write(filepath.Join(tree, "var/lib/kubelet/pki/client.pem"), "of the last node")
	h.write(filepath.Join(tree, "var/lib/containerd/image"), "large")
	h.write(filepath.Join(tree, "run/leftover"), "")
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(tree, "var/lib/cni")); err != nil {
		t.Fatal(err)
	}
	if err := h.slots.Refresh(t.Context(), journal.A, h.contents(2)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"var/lib/kubelet/pki/client.pem": "no such file", "run/leftover": "no such file", "var/lib/cni/outside": "no such file",
		"var/lib/containerd/image": "large", "etc/nstance/epoch": "2", "etc/kubernetes/pki/ca.crt": "ca",
	} {
		if got := h.read(path); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if text, err := os.ReadFile(outside); err != nil || string(text) != "as it was" {
		t.Errorf("outside: %q, %v", text, err)
	}
	if m, ok := h.slots.Marker(t.Context(), journal.A); !ok || m.Epoch != 2 {
		t.Errorf("%+v, %v", m, ok)
	}
	c := h.contents(3)
	c.Hash = "sha256:bb"
	if err := h.slots.Refresh(t.Context(), journal.A, c); err == nil {
		t.Error("other content was refreshed")
	}
	h.write(filepath.Join(tree, "usr/bin/mine"), "")
	if err := h.slots.Refresh(t.Context(), journal.A, h.contents(3)); err == nil {
		t.Error("a tree with another program was refreshed")
	}
}

func TestAMarkerThatIsNone(t *testing.T) {
	h := newHost(t)
	if err := h.slots.Build(t.Context(), journal.A, h.contents(1)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", strings.Repeat(" ", 5000)} {
		h.write(filepath.Join(h.slots.Path(journal.A), ".nstance-slot.json"), text)
		if m, ok := h.slots.Marker(t.Context(), journal.A); ok {
			t.Errorf("%.10q: %+v", text, m)
		}
	}
}

func TestFilesAreWrittenIntoASlot(t *testing.T) {
	h := newHost(t)
	if err := h.slots.Write(journal.A, h.contents(1).Files); err == nil {
		t.Error("files were written into an empty slot")
	}
	if err := h.slots.Build(t.Context(), journal.A, h.contents(1)); err != nil {
		t.Fatal(err)
	}
	secret := []render.File{{Place: render.Slot, Path: "/etc/kubernetes/bootstrap-kubelet.conf", Mode: 0o600, Content: "token", Secret: true}}
	if err := h.slots.Write(journal.A, secret); err != nil || h.read("etc/kubernetes/bootstrap-kubelet.conf") != "token" {
		t.Errorf("%q, %v", h.read("etc/kubernetes/bootstrap-kubelet.conf"), err)
	}
}
