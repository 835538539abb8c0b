package unit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"nstance.dev/protos/binding"
)

// What the agent's process can do to its own directory leads the program nowhere else.

// TestLinksToTheRequestsAreNotFollowed: no part of the path may be one.
func TestLinksToTheRequestsAreNotFollowed(t *testing.T) {
	for _, link := range []string{"agent", "agent/cluster"} {
		m := newMachine(t)
		m.agent.Join(binding.Join{Binding: "b1", Blob: []byte("#!/bin/sh\necho joined >>$MACHINE/ran\n")})
		if err := os.Rename(m.path(link), m.path("elsewhere")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(m.path("elsewhere"), m.path(link)); err != nil {
			t.Fatal(err)
		}
		err := m.unit().Once(t.Context())
		if err == nil || !strings.Contains(err.Error(), "link") || !strings.Contains(err.Error(), link) {
			t.Errorf("%s is a link: %v", link, err)
		}
		if got := m.read("elsewhere/b1.join.request") + m.read("elsewhere/cluster/b1.join.request"); got == "" || m.read("ran") != "" {
			t.Errorf("%s is a link: the file behind it is gone, or was run: %q", link, m.read("ran"))
		}
	}
}

// TestRequestsThatAreNoFiles: links, pipes and directories are neither read nor followed, and
// what is behind a link stays as it is. A request beside them is dealt with.
func TestRequestsThatAreNoFiles(t *testing.T) {
	m := newMachine(t)
	m.agent.Join(binding.Join{Binding: "b5", Blob: []byte("#!/bin/sh\necho joined >>$MACHINE/ran\n")})
	request := m.read("agent/cluster/b5.join.request")
	m.write("elsewhere", request, 0o600)
	m.write("secret", "root:"+marked, 0o600)
	for _, err := range []error{
		os.Symlink(m.path("elsewhere"), m.path("agent/cluster/b1.join.request")),
		os.Symlink(m.path("secret"), m.path("agent/cluster/b2.join.request")),
		os.Link(m.path("secret"), m.path("agent/cluster/b3.join.request")),
		syscall.Mkfifo(m.path("agent/cluster/b4.join.request"), 0o600),
		os.MkdirAll(m.path("agent/cluster/b0.join.request/full"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	m.write("agent/cluster/big.join.request", strings.Repeat(" ", 3<<20), 0o600)
	m.once()
	m.expect("the request beside them", m.report(), "b5", binding.Joining, binding.Done, 0)
	if m.read("ran") != "joined\n" || m.read("elsewhere") != request || m.read("secret") != "root:"+marked {
		t.Errorf("ran %q; or a file behind a link has changed", m.read("ran"))
	}
	left, err := os.ReadDir(m.opts.Requests)
	if err != nil || len(left) != 1 || left[0].Name() != "b0.join.request" {
		t.Errorf("left over: %v, %v", left, err)
	}
	m.expectNoSecret(marked)
	if strings.Contains(m.read("state/status"), marked) {
		t.Error("the status quotes what is no request")
	}
}

// TestThePlaceOfTheProgramIsItsOwn: where others may write, nothing is believed.
func TestThePlaceOfTheProgramIsItsOwn(t *testing.T) {
	for name, change := range map[string]func(m *machine) error{
		"state open to all":   func(m *machine) error { return os.Chmod(m.opts.State, 0o777) },
		"state open to group": func(m *machine) error { return os.Chmod(m.opts.State, 0o775) },
		"private open":        func(m *machine) error { return os.Chmod(filepath.Join(m.opts.State, privateDir), 0o777) },
		"private is a link": func(m *machine) error {
			return errors.Join(os.Remove(filepath.Join(m.opts.State, privateDir)), os.Symlink(m.path("agent"), filepath.Join(m.opts.State, privateDir)))
		},
	} {
		m := newMachine(t)
		m.agent.Join(binding.Join{Binding: "b1", Blob: []byte("#!/bin/sh\necho joined >>$MACHINE/ran\n")})
		if err := change(m); err != nil {
			t.Fatal(err)
		}
		if err := m.unit().Once(t.Context()); !errors.Is(err, errTooOpen) || m.read("ran") != "" {
			t.Errorf("%s: Once() = %v, ran %q", name, err, m.read("ran"))
		}
	}
}

// TestWhatIsRunIsTheProgramsCopy: what the agent changes afterwards does not matter.
func TestWhatIsRunIsTheProgramsCopy(t *testing.T) {
	m := newMachine(t)
	r := m.joins("b1", `#!/bin/sh
case $0 in $MACHINE/state/private/*) ;; *) echo "runs $0"; exit 1 ;; esac
ls $MACHINE/agent/cluster
`)
	m.expect("join", r, "b1", binding.Joining, binding.Done, 0)
	if len(r.Output) > 0 {
		t.Errorf("the request is there while it runs: %s", r.Output)
	}
}

// The status is for the agent's group, and for nobody else.
func TestS14_TheStatusIsForTheAgent(t *testing.T) {
	m := newMachine(t)
	m.joins("b1", "#!/bin/sh\necho "+marked+"\n")
	agent, err := os.Stat(m.path("agent"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(m.path("state/status"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Sys().(*syscall.Stat_t).Gid, agent.Sys().(*syscall.Stat_t).Gid; info.Mode().Perm() != 0o640 || got != want {
		t.Errorf("mode %v, group %d, want that of the agent's directory, %d", info.Mode(), got, want)
	}
	m.expectNoSecret(marked)
}
