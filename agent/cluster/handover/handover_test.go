package handover

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nstance.dev/agent/cluster"
	"nstance.dev/protos/binding"
)

// machine has the files of a handover; the test is the program.
type machine struct {
	*Handover
	t *testing.T
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	m := &machine{New(filepath.Join(dir, "cluster"), filepath.Join(dir, "status")), t}
	m.status(cluster.Status{})
	return m
}

func (m *machine) status(s cluster.Status) {
	m.t.Helper()
	data, err := s.Encode()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.statusPath, data, 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// restart forgets what the process knew.
func (m *machine) restart() { m.Handover = New(m.dir, m.statusPath) }

// take takes a request away as the program does.
func (m *machine) take(name string) cluster.Request {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		m.t.Fatal(err)
	}
	r, err := cluster.DecodeRequest(data)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		m.t.Fatal(err)
	}
	return r
}

func (m *machine) files() (names []string) {
	m.t.Helper()
	entries, err := os.ReadDir(m.dir)
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (m *machine) expectFiles(want ...string) {
	m.t.Helper()
	if got := m.files(); !slices.Equal(got, want) {
		m.t.Errorf("files %q, want %q", got, want)
	}
}

func (m *machine) expect(what string, got binding.Report, id string, action binding.Action, state binding.State) {
	m.t.Helper()
	if got.Binding != id || got.Action != action || got.State != state {
		m.t.Errorf("%s: %v; want %s %s %s", what, got, id, action, state)
	}
}

func (m *machine) expectReport(what, id string, action binding.Action, state binding.State) {
	m.t.Helper()
	got, ok := m.Report()
	if !ok {
		m.t.Errorf("%s: nothing can be said", what)
	}
	m.expect(what, got, id, action, state)
}

func aJoin(id string) binding.Join {
	return binding.Join{Binding: id, Blob: []byte("#!/bin/sh\n"), Node: binding.Node{Labels: map[string]string{"a": "b"}}}
}

func entry(id string, action binding.Action, state binding.State) cluster.Entry {
	return cluster.Entry{Binding: id, Action: action, State: state}
}

// The life of a machine with two bindings, in which the agent is restarted after each step, or
// never.
func TestJoinAndLeave(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		m := newMachine(t)
		again := func() {
			if restarts {
				m.restart()
			}
		}
		m.expectReport("a new machine", "", "", "")
		m.expect("join", m.Join(aJoin("b1")), "b1", binding.Joining, binding.Accepted)
		again()
		m.expectReport("waiting", "b1", binding.Joining, binding.Accepted)
		m.expect("join again", m.Join(aJoin("b1")), "b1", binding.Joining, binding.Accepted)
		m.expectFiles("b1.join.request")
		s := cluster.Status{}.With(entry("b1", binding.Joining, binding.Running))
		m.status(s)
		again()
		m.expectReport("begun and not taken away", "b1", binding.Joining, binding.Running)
		if r := m.take("b1.join.request"); string(r.Blob) != "#!/bin/sh\n" || r.Node.Labels["a"] != "b" {
			t.Errorf("handed over %v", r)
		}
		m.expect("join while it runs", m.Join(aJoin("b1")), "b1", binding.Joining, binding.Running)
		m.expectFiles()
		s = s.With(entry("b1", binding.Joining, binding.Done))
		m.status(s)
		again()
		m.expectReport("joined", "b1", binding.Joining, binding.Done)
		m.expect("join afterwards", m.Join(aJoin("b1")), "b1", binding.Joining, binding.Done)
		m.expect("join another one", m.Join(aJoin("b2")), "b2", binding.Joining, binding.Failed)
		m.expectFiles()

		m.expect("leave", m.Leave("b1"), "b1", binding.Leaving, binding.Accepted)
		again()
		m.expect("leave again", m.Leave("b1"), "b1", binding.Leaving, binding.Accepted)
		m.expect("join another one while it leaves", m.Join(aJoin("b2")), "b2", binding.Joining, binding.Failed)
		m.expectFiles("b1.leave.request")
		m.take("b1.leave.request")
		s = s.With(entry("b1", binding.Leaving, binding.Done))
		m.status(s)
		again()
		m.expect("leave a third time", m.Leave("b1"), "b1", binding.Leaving, binding.Done)
		m.expect("join what has left", m.Join(aJoin("b1")), "b1", binding.Leaving, binding.Done)
		m.expectFiles()

		m.expect("join another one afterwards", m.Join(aJoin("b2")), "b2", binding.Joining, binding.Accepted)
		m.take("b2.join.request")
		m.status(s.With(entry("b2", binding.Joining, binding.Failed)))
		again()
		m.expectReport("failed", "b2", binding.Joining, binding.Failed)
		m.expect("leave what has ended", m.Leave("b1"), "b1", binding.Leaving, binding.Done)
		m.expect("leave what failed", m.Leave("b2"), "b2", binding.Leaving, binding.Accepted)
	}
}

// A leave that overtakes its join takes it back; one of what never came is done.
func TestLeaveBeforeTheJoinHasBegun(t *testing.T) {
	m := newMachine(t)
	m.expect("leave", m.Leave("b1"), "b1", binding.Leaving, binding.Done)
	m.expectFiles()
	m.Join(aJoin("b1"))
	m.expect("leave", m.Leave("b1"), "b1", binding.Leaving, binding.Accepted)
	m.expectFiles("b1.leave.request")
	m.expect("join", m.Join(aJoin("b1")), "b1", binding.Leaving, binding.Accepted)
	m.expectFiles("b1.leave.request")
	m.take("b1.leave.request")
	m.status(cluster.Status{}.WithPast("b1"))
	m.expectReport("taken away", "b1", binding.Leaving, binding.Done)
}

func TestWhatIsNotHandedOver(t *testing.T) {
	m := newMachine(t)
	for name, r := range map[string]binding.Report{
		"a path":             m.Join(aJoin("../b1")),
		"a blob of a path":   m.Join(binding.Join{Binding: "b1", Blob: []byte("kubeadm join")}),
		"a leave of a path":  m.Leave("a/b"),
		"a leave of nothing": m.Leave(""),
	} {
		if r.State != binding.Failed || r.ExitCode != binding.NoExit || r.Error == "" {
			t.Errorf("%s: %v", name, r)
		}
	}
	m.Join(aJoin("b1"))
	m.expect("beside one that waits", m.Join(aJoin("b2")), "b2", binding.Joining, binding.Failed)
	m.expectReport("afterwards", "b2", binding.Joining, binding.Failed)
	m.expectFiles("b1.join.request")
	m.restart()
	m.expectReport("after a restart", "b1", binding.Joining, binding.Accepted)
}

// Without the program, or with a status that cannot be read, nothing is handed over.
func TestNotAble(t *testing.T) {
	for _, content := range []string{"", "{", `{"v":2}`, strings.Repeat(" ", cluster.MaxStatus+1)} {
		m := newMachine(t)
		if !m.Able() {
			t.Fatal("not able with a status")
		}
		if err := os.WriteFile(m.statusPath, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := m.Report(); m.Able() || ok {
			t.Errorf("able with the status %.20q", content)
		}
		r := m.Join(aJoin("b1"))
		if m.expect("join", r, "b1", binding.Joining, binding.Failed); !strings.Contains(r.Error, "nstance-cluster.service") {
			t.Errorf("error %q", r.Error)
		}
		m.expectFiles()
	}
	if m := New(t.TempDir(), t.TempDir()); m.Able() {
		t.Error("able with a directory as the status")
	}
	if m := New(t.TempDir(), "/proc/self/nothing"); m.Able() {
		t.Error("able without a status")
	}
}

// TestS14_RequestsAreTheAgentsAlone: they are open to nobody else, and what an interrupted write
// has left goes with the next one.
func TestS14_RequestsAreTheAgentsAlone(t *testing.T) {
	m := newMachine(t)
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.dir, ".b0.join.request123"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.Join(aJoin("b1"))
	m.expectFiles("b1.join.request")
	for path, want := range map[string]os.FileMode{m.dir: 0o700, filepath.Join(m.dir, "b1.join.request"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := os.Chmod(m.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	m.take("b1.join.request")
	m.restart()
	m.expect("a directory of everybody", m.Join(aJoin("b2")), "b2", binding.Joining, binding.Failed)
}
