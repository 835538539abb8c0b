package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/agent/paver/artifact"
	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/command"
	"nstance.dev/agent/paver/facts"
	"nstance.dev/agent/paver/image"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/operation"
	"nstance.dev/agent/paver/pavertest"
	"nstance.dev/agent/paver/policy"
	"nstance.dev/agent/paver/preflight"
	"nstance.dev/agent/paver/render"
	"nstance.dev/agent/paver/runner/fake"
	"nstance.dev/agent/paver/settings"
	"nstance.dev/agent/paver/transition"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixture struct {
	t      *testing.T
	dir    string
	runner *fake.Runner
	host   *Host
	policy string
	free   uint64
	facts  preflight.Facts
	links  string
	ran    []string
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, dir: t.TempDir(), runner: &fake.Runner{}, policy: "allow: {pave: true}\n", free: 100 << 30, links: `[{"ifname":"lo"}]`, facts: pavertest.Facts()}
	f.write("etc/resolv.conf", "nameserver 192.0.2.1\n")
	f.write("proc/sys/kernel/panic", "0\n")
	f.host = New(Options{
		Dir: filepath.Join(f.dir, "state"), Machines: filepath.Join(f.dir, "machines"), Runner: f.runner, Images: root(filepath.Join(f.dir, "image")),
		Policy:   func() (policy.Policy, error) { return policy.Parse([]byte(f.policy)) },
		Settings: settings.Host{Root: f.dir, Load: func(context.Context, string) error { return nil }, Reload: func(context.Context) error { return nil }},
		Facts:    facts.Options{Root: f.dir, UserExists: func(string) bool { return false }},
		Network:  f.network, Log: slog.New(slog.DiscardHandler),
		Probe: func(context.Context, preflight.Targets) (preflight.Facts, error) { return f.facts, nil },
		Mode:  preflight.Service,
		Disk: Disk{
			Free:   func(string) (uint64, uint64, error) { return f.free, 100 << 30, nil },
			Shares: func(string, string) bool { return false },
		},
	})
	f.write("image/usr/bin/kubelet", "")
	f.write("state/x", "")
	return f
}

func (f *fixture) write(path, content string) {
	path = filepath.Join(f.dir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) network(_ context.Context, argv ...string) ([]byte, error) {
	f.ran = append(f.ran, strings.Join(argv, " "))
	switch {
	case argv[0] == "nft":
		return nil, exec.ErrNotFound
	case slices.Contains(argv, "delete"):
		return nil, nil
	case slices.Contains(argv, "link"):
		return []byte(f.links), nil
	}
	return []byte("[]"), nil
}

// root is an image that is one tree.
type root string

func (r root) Fetch(context.Context, *nstancev1.MachineAssignment, *nstancev1.MachineCredential) error {
	return nil
}

func (r root) Root(context.Context, *nstancev1.MachineAssignment, *nstancev1.MachineCredential) (string, func(), error) {
	return string(r), func() {}, nil
}

// Install writes a program, as an artifact does.
func (r root) Install(_ context.Context, _ *nstancev1.MachineAssignment, dir string) ([]artifact.File, error) {
	const content = "#!/bin/sh\n"
	sum := sha256.Sum256([]byte(content))
	path := filepath.Join(dir, "usr/local/bin/kubelet")
	return []artifact.File{{Path: "/usr/local/bin/kubelet", Mode: 0o755, SHA256: hex.EncodeToString(sum[:])}},
		errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o755), os.Chmod(path, 0o755))
}

// Size is a GiB, unpacked once there is something.
func (r root) Size(*nstancev1.MachineAssignment) (image.Size, error) {
	_, err := os.Stat(filepath.Join(string(r), "usr"))
	return image.Size{Bytes: 1 << 30, Unpacked: err == nil}, nil
}

func (r root) Trim(context.Context) error { return nil }
func (r root) Clear() error               { return os.RemoveAll(string(r)) }

// work is a step of a transition to content 1.
func (f *fixture) work(kind transition.Kind, stage journal.Stage, from, to journal.Slot) Work {
	f.t.Helper()
	a, err := assignment.From(pavertest.Assignment(1, nstancev1.MachineMode_MACHINE_MODE_REPAVE, "1"))
	if err != nil {
		f.t.Fatal(err)
	}
	slot := to
	if kind == transition.RetireSlot || kind == transition.StopKubelet {
		slot = from
	}
	return Work{
		Step:       transition.Step{Kind: kind, Slot: slot},
		Journal:    journal.Journal{V: 1, Epoch: 1, Transition: &journal.Transition{Kind: journal.KindBuild, Epoch: 1, From: from, To: to, Stage: stage, Assignment: a}},
		Assignment: &a, Credential: pavertest.Credential(1, 1, "token", time.Now().Add(time.Hour)),
	}
}

func (f *fixture) do(w Work) transition.Result {
	f.t.Helper()
	r, err := f.host.Do(f.t.Context(), w)
	if err != nil {
		f.t.Fatalf("%s: %v", w.Step.Kind, err)
	}
	return r
}

// TestTheOrderOfAStop: the kubelet, so that no Pod is started again; the Pods, so that the halt
// does not wait for them; containerd; the machine.
func TestTheOrderOfAStop(t *testing.T) {
	f := newFixture(t)
	f.runner.Command = func(_ journal.Slot, argv []string) command.Output {
		if argv[0] == "crictl" && argv[1] == "pods" {
			return command.Output{Text: []byte("p1\np2\n")}
		}
		return command.Output{}
	}
	f.runner.Started(journal.A)
	f.do(f.work(transition.RetireSlot, journal.Retire, journal.A, journal.B))
	want := []string{
		"Enable ", "Exec systemctl stop kubelet.service a", "Exec crictl pods --quiet --state=ready a", "Exec crictl stopp p1 p2 a",
		"Exec systemctl stop containerd.service a", "Stop a",
	}
	if got := f.runner.Calls(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Without crictl the Pods' slice is stopped, and a kubelet that hangs is killed.
func TestAStopOfWhatHangs(t *testing.T) {
	f := newFixture(t)
	f.runner.Command = func(_ journal.Slot, argv []string) command.Output {
		if argv[0] == "crictl" || slices.Equal(argv, []string{"systemctl", "stop", "kubelet.service"}) {
			return command.Output{Code: 1, Text: []byte("it hangs")}
		}
		return command.Output{}
	}
	f.runner.Started(journal.A)
	if _, err := f.host.Do(t.Context(), f.work(transition.StopKubelet, journal.Fetch, journal.A, journal.B)); err == nil || !strings.Contains(err.Error(), "it hangs") {
		t.Errorf("%v", err)
	}
	if !slices.Contains(f.runner.Calls(), "Exec systemctl kill --signal=SIGKILL kubelet.service a") {
		t.Errorf("%q", f.runner.Calls())
	}
	f.do(f.work(transition.RetireSlot, journal.Retire, journal.A, journal.B))
	if !slices.Contains(f.runner.Calls(), "Exec systemctl stop kubepods.slice a") || len(f.runner.Runs()) > 0 {
		t.Errorf("%q; %v runs", f.runner.Calls(), f.runner.Runs())
	}
}

// TestM54_PodsAreKeptWhereTheyAreTo: with keep_pods only the kubelet is stopped.
func TestM54_PodsAreKeptWhereTheyAreTo(t *testing.T) {
	for _, keep := range []bool{true, false} {
		f := newFixture(t)
		f.runner.Started(journal.A)
		w := f.work(transition.StopKubelet, journal.Fetch, journal.A, journal.B)
		w.Journal.Transition.Assignment.KeepPods = keep
		f.do(w)
		pods := slices.ContainsFunc(f.runner.Calls(), func(c string) bool { return strings.Contains(c, "crictl") })
		if kubelet := f.runner.Runs()[journal.A]; kubelet || pods == keep {
			t.Errorf("keep %v: kubelet runs %v, pods were stopped %v", keep, kubelet, pods)
		}
	}
}

// What was recorded of the host once is what it was like before, and what came since goes.
func TestTheNetworkIsSweptAtASwitch(t *testing.T) {
	f := newFixture(t)
	first := f.do(f.work(transition.RecordHost, journal.Guard, journal.None, journal.A))
	if !strings.Contains(string(first.Network), `"lo"`) || first.Settings["kernel/panic"] != "0" {
		t.Errorf("recorded: %s, %v", first.Network, first.Settings)
	}
	f.links = `[{"ifname":"lo"},{"ifname":"cni0"},{"ifname":"eth1"}]`
	record := f.work(transition.RecordHost, journal.Guard, journal.A, journal.B)
	record.Journal.Network = first.Network
	if again := f.do(record); again.Network != nil {
		t.Errorf("recorded again: %s", again.Network)
	}
	w := f.work(transition.RetireSlot, journal.Retire, journal.A, journal.B)
	w.Journal.Network = first.Network
	f.do(w)
	deleted := slices.DeleteFunc(f.ran, func(c string) bool { return !strings.Contains(c, "delete") })
	if !slices.Equal(deleted, []string{"ip link delete dev cni0"}) {
		t.Errorf("deleted: %q", deleted)
	}
}

// TestM57_GuardsLookBeforeTheOldMachineIsStopped.
func TestM57_GuardsLookBeforeTheOldMachineIsStopped(t *testing.T) {
	f := newFixture(t)
	guard := f.work(transition.CheckGuards, journal.Guard, journal.A, journal.B)
	f.do(f.work(transition.BuildSlot, journal.Build, journal.A, journal.B))
	f.do(guard)
	f.free = 100 << 20
	if _, err := f.host.Do(t.Context(), guard); !errors.Is(err, errDisk) {
		t.Errorf("a full disk: %v", err)
	}
	if !f.host.DiskLow() {
		t.Error("the disk is not low")
	}
	f.free = 100 << 30
	f.policy = "allow: {pave: false}\n"
	if _, err := f.host.Do(t.Context(), guard); err == nil || !strings.Contains(err.Error(), policy.Reason) {
		t.Errorf("a policy that was changed: %v", err)
	}
	f.policy = "allow: {pave: true}\n"
	f.host.opts.Reachable = func(context.Context, *nstancev1.MachineAssignment) error { return errors.New("no route") }
	if _, err := f.host.Do(t.Context(), guard); err == nil || !strings.Contains(err.Error(), "no route") {
		t.Errorf("an API server that is away: %v", err)
	}
	f.host.opts.Reachable = nil
	f.write("machines/node-b/usr/bin/mine", "")
	if _, err := f.host.Do(t.Context(), guard); err == nil {
		t.Error("a slot that was changed passes")
	}
}

// TestM54_AKubeletRunsOnWherePolicyForbidsTheRest: what is refused later is refused before the
// kubelet is stopped for it.
func TestM54_AKubeletRunsOnWherePolicyForbidsTheRest(t *testing.T) {
	f := newFixture(t)
	f.runner.Started(journal.A)
	f.policy = "allow: {pave: false}\n"
	_, err := f.host.Do(t.Context(), f.work(transition.StopKubelet, journal.Fetch, journal.A, journal.B))
	if err == nil || !strings.Contains(err.Error(), policy.Reason) {
		t.Errorf("the kubelet is stopped: %v", err)
	}
	if len(f.runner.Calls()) > 0 {
		t.Errorf("ran %q", f.runner.Calls())
	}
}

// TestM60_NoPolicyKeepsAnOldMachineDown: it ran before, and its host boots it without asking.
func TestM60_NoPolicyKeepsAnOldMachineDown(t *testing.T) {
	for _, text := range []string{"allow: {pave: false}\n", "no: [policy"} {
		f := newFixture(t)
		f.do(f.work(transition.BuildSlot, journal.Build, journal.None, journal.A))
		f.policy = text
		w := f.work(transition.StartActive, "", journal.None, journal.A)
		w.Journal = journal.Journal{V: 1, Epoch: 1, Active: journal.A}
		f.do(w)
		if runs := f.runner.Runs(); !runs[journal.A] {
			t.Errorf("%q: %v run", text, runs)
		}
	}
}

// TestAResetIsForThePolicyToAllow, where a server asks for it.
func TestAResetIsForThePolicyToAllow(t *testing.T) {
	f := newFixture(t)
	f.do(f.work(transition.BuildSlot, journal.Build, journal.None, journal.A))
	m := pavertest.Assignment(2, nstancev1.MachineMode_MACHINE_MODE_RESET, "1")
	m.WipePersistent = true
	a, err := assignment.From(m)
	if err != nil {
		t.Fatal(err)
	}
	reset := Work{Step: transition.Step{Kind: transition.ResetHost}, Journal: journal.Journal{V: 1, Epoch: 1, Active: journal.A}, Assignment: &a}
	f.policy = "allow: {pave: false}\n"
	if _, err := f.host.Do(t.Context(), reset); err == nil || !f.host.slots.Exists(journal.A) {
		t.Errorf("%v; the tree exists: %v", err, f.host.slots.Exists(journal.A))
	}
	f.policy = "allow: {pave: true}\n"
	if f.do(reset); f.host.slots.Exists(journal.A) {
		t.Error("the tree exists")
	}
}

// TestM98_AChangedFileIsNamed: by the survey of the machine that runs, and nothing is repaired.
func TestM98_AChangedFileIsNamed(t *testing.T) {
	f := newFixture(t)
	f.do(f.work(transition.BuildSlot, journal.Build, journal.None, journal.A))
	f.do(f.work(transition.BootSlot, journal.Boot, journal.None, journal.A))
	j := journal.Journal{V: 1, Epoch: 1, Active: journal.A, Contents: map[journal.Slot]journal.Content{journal.A: {Epoch: 1}}}
	look := func() []string {
		f.host.Surroundings(t.Context(), j)
		f.host.look(t.Context())
		var paths []string
		for _, d := range f.host.Surroundings(t.Context(), j).Drift {
			paths = append(paths, d.GetPath())
		}
		return paths
	}
	if got := look(); len(got) > 0 {
		t.Errorf("of nothing that was changed: %q", got)
	}
	f.write("machines/node-a/etc/kubernetes/kubelet.yaml", "mine: true\n")
	f.write("etc/systemd/nspawn/node-a.nspawn", "[Exec]\n")
	f.write("machines/node-a/usr/local/bin/kubelet", "#!/bin/false\n")
	if got := look(); !slices.Equal(got, []string{"/etc/kubernetes/kubelet.yaml", "/usr/local/bin/kubelet", "/etc/systemd/nspawn/node-a.nspawn"}) {
		t.Errorf("%q", got)
	}
	if text, err := os.ReadFile(filepath.Join(f.dir, "machines/node-a/etc/kubernetes/kubelet.yaml")); err != nil || string(text) != "mine: true\n" {
		t.Errorf("it was repaired: %q, %v", text, err)
	}
	f.policy = "allow: {pave: true}\ndrift: false\n"
	if got := look(); len(got) > 0 {
		t.Errorf("a policy without drift: %q", got)
	}
}

// TestM100_KeysThatAreNotAllowedAreTold, and the rest is built.
func TestM100_KeysThatAreNotAllowedAreTold(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	f := newFixture(t)
	f.policy = "allow: {pave: true}\nssh: {users: [admin, gone]}\n"
	f.host.opts.Facts.UserExists = func(name string) bool { return name != "gone" }
	m := pavertest.Assignment(1, nstancev1.MachineMode_MACHINE_MODE_REPAVE, "1")
	m.Template.Host = &nstancev1.MachineHostSettings{}
	for _, user := range []string{"admin", "root", "gone"} {
		m.Template.Host.SshKeys = append(m.Template.Host.SshKeys, &nstancev1.MachineSshUser{User: user, Keys: []string{key}})
	}
	a, err := assignment.From(m)
	if err != nil {
		t.Fatal(err)
	}
	work := func(kind transition.Kind, stage journal.Stage) Work {
		w := f.work(kind, stage, journal.None, journal.A)
		w.Journal.Transition.Assignment, w.Assignment = a, &a
		return w
	}
	f.do(work(transition.BuildSlot, journal.Build))
	f.do(work(transition.BootSlot, journal.Boot))
	entries, err := os.ReadDir(filepath.Join(f.dir, render.SSHDir))
	if err != nil || len(entries) != 1 || entries[0].Name() != "admin" {
		t.Errorf("keys of %v, %v", entries, err)
	}
	j := journal.Journal{V: 1, Epoch: 1, Active: journal.A, Contents: map[journal.Slot]journal.Content{journal.A: {Epoch: 1}}}
	f.host.Surroundings(t.Context(), j)
	f.host.look(t.Context())
	var told []string
	for _, p := range f.host.Surroundings(t.Context(), j).Problems {
		if p.GetReason() == policy.Reason {
			told = append(told, p.GetMessage())
		}
	}
	want := []string{
		`host.sshKeys[1].user: keys of user "root" may not be set on this host; its keys are left out`,
		`host.sshKeys[2].user: user "gone" does not exist on this host; its keys are left out`,
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestM56M100_KeysAreSetInPlace: keys are changed without a repave, for users whom the policy names; they are there at the next boot too, are no
// drift, and another assignment has its own.
func TestM56M100_KeysAreSetInPlace(t *testing.T) {
	key := func(comment string) string {
		return "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA " + comment
	}
	f := newFixture(t)
	f.policy = "allow: {pave: true}\nssh: {users: [admin, other]}\n"
	f.host.opts.Facts.UserExists = func(string) bool { return true }
	work := func(epoch int64, kind transition.Kind, stage journal.Stage) Work {
		m := pavertest.Assignment(epoch, nstancev1.MachineMode_MACHINE_MODE_REPAVE, "1")
		m.Template.Host = &nstancev1.MachineHostSettings{SshKeys: []*nstancev1.MachineSshUser{{User: "admin", Keys: []string{key("built")}}}}
		a, err := assignment.From(m)
		if err != nil {
			t.Fatal(err)
		}
		w := f.work(kind, stage, journal.None, journal.A)
		w.Journal.Transition.Assignment, w.Assignment = a, &a
		w.Credential = pavertest.Credential(epoch, 1, "token-of-a-machine", time.Now().Add(time.Hour))
		return w
	}
	expect := func(what string, want map[string]string) {
		t.Helper()
		got := map[string]string{}
		entries, err := os.ReadDir(filepath.Join(f.dir, render.SSHDir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(f.dir, render.SSHDir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			got[e.Name()] = string(text)
		}
		if _, err := os.Stat(filepath.Join(f.dir, render.SSHDropIn)); !maps.Equal(got, want) || (err == nil) != (len(want) > 0) {
			t.Errorf("%s: keys %q, want %q; drop-in: %v", what, got, want, err)
		}
	}
	set := func(users ...*nstancev1.MachineSshUser) operation.Keys {
		t.Helper()
		came, err := f.host.SetKeys(t.Context(), journal.A, users)
		if err != nil {
			t.Fatal(err)
		}
		return came
	}
	if _, err := f.host.SetKeys(t.Context(), journal.A, nil); err == nil {
		t.Error("keys were set for a slot in which nothing is")
	}
	f.do(work(1, transition.BuildSlot, journal.Build))
	f.do(work(1, transition.BootSlot, journal.Boot))
	expect("built", map[string]string{"admin": key("built") + "\n"})
	j := journal.Journal{V: 1, Epoch: 1, Active: journal.A, Contents: map[journal.Slot]journal.Content{journal.A: {Epoch: 1}}}
	if drift, err := f.host.drift(t.Context(), j); err != nil || len(drift) > 0 {
		t.Errorf("drift %v, %v", drift, err)
	}
	came := set(&nstancev1.MachineSshUser{User: "other", Keys: []string{key("one"), key("two")}}, &nstancev1.MachineSshUser{User: "root", Keys: []string{key("x")}})
	if !slices.Equal(came.Set, []string{"other"}) || !slices.Equal(came.Refused, []string{"root"}) {
		t.Errorf("%+v", came)
	}
	others := map[string]string{"other": key("one") + "\n" + key("two") + "\n"}
	expect("set", others)
	if drift, err := f.host.drift(t.Context(), j); err != nil || len(drift) > 0 {
		t.Errorf("what was set is drift: %v, %v", drift, err)
	}
	f.runner.Reboot()
	f.do(work(1, transition.BootSlot, journal.Boot))
	expect("the next boot", others)
	for _, wrong := range []string{`command="x" ` + key("y"), key("a\nssh-rsa b"), "no key"} {
		if _, err := f.host.SetKeys(t.Context(), journal.A, []*nstancev1.MachineSshUser{{User: "other", Keys: []string{wrong}}}); err == nil {
			t.Errorf("%q was set", wrong)
		}
	}
	good := f.policy
	f.policy = "allow: ["
	if _, err := f.host.SetKeys(t.Context(), journal.A, nil); err == nil {
		t.Error("keys were taken away under a policy that cannot be read")
	}
	f.policy = good
	expect("after what was refused", others)
	f.write("state/ssh-keys-a.json", "damaged")
	f.runner.Reboot()
	f.do(work(1, transition.BootSlot, journal.Boot))
	expect("what was set cannot be read", nil)
	set()
	expect("none", nil)
	f.write("state/ssh-keys-a.json", "damaged")
	f.runner.Reboot()
	f.do(work(2, transition.BuildSlot, journal.Build))
	f.do(work(2, transition.BootSlot, journal.Boot))
	expect("another assignment", map[string]string{"admin": key("built") + "\n"})
	set(&nstancev1.MachineSshUser{User: "other", Keys: []string{key("one")}})
	if err := f.host.Reset(t.Context(), j, false); err != nil {
		t.Fatal(err)
	}
	expect("reset", nil)
	if _, err := os.Stat(filepath.Join(f.dir, "state/ssh-keys-a.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was set is left: %v", err)
	}
}

func TestASurveyEndsWithItsContext(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.host.Survey(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A reset keeps nothing of what was built, and may be repeated.
func TestAResetTakesEverythingBack(t *testing.T) {
	for _, wipe := range []bool{false, true} {
		f := newFixture(t)
		f.do(f.work(transition.BuildSlot, journal.Build, journal.None, journal.A))
		f.do(f.work(transition.BootSlot, journal.Boot, journal.None, journal.A))
		f.runner.Started(journal.B)
		f.write("state/persist/logs/x", "")
		for range 2 {
			if err := f.host.Reset(t.Context(), journal.Journal{Settings: map[string]string{"kernel/panic": "0"}}, wipe); err != nil {
				t.Fatal(err)
			}
		}
		if len(f.runner.Runs()) > 0 {
			t.Errorf("%v run", f.runner.Runs())
		}
		for path, want := range map[string]bool{
			"machines/node-a": false, "state/slot-a.json": false, "state/manifest-a.json": false, "state/manifest-host.json": false,
			"etc/systemd/nspawn/node-a.nspawn": false, "state/persist/logs/x": !wipe, "image": !wipe,
		} {
			if _, err := os.Lstat(filepath.Join(f.dir, path)); (err == nil) != want {
				t.Errorf("wipe %v: %s exists: %v", wipe, path, err == nil)
			}
		}
	}
}

// A machine that cannot be stopped keeps its tree.
func TestAResetOfWhatCannotBeStopped(t *testing.T) {
	f := newFixture(t)
	f.do(f.work(transition.BuildSlot, journal.Build, journal.None, journal.A))
	f.runner.Started(journal.A)
	f.runner.Fault = func(op string, _ journal.Slot) error {
		if op == "Stop" || op == "Kill" {
			return errors.New("it does not end")
		}
		return nil
	}
	if err := f.host.Reset(t.Context(), journal.Journal{}, true); err == nil || !f.host.slots.Exists(journal.A) {
		t.Errorf("%v; the tree exists: %v", err, f.host.slots.Exists(journal.A))
	}
}
