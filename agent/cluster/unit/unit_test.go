package unit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nstance.dev/agent/cluster"
	"nstance.dev/protos/binding"
)

const marked = "marked-secret-c09e"

func TestAMachineJoinsAndLeaves(t *testing.T) {
	m := newMachine(t)
	if s := m.status(); s.Current.Binding != "" || !m.agent.Able() {
		t.Errorf("a new machine has %+v", s.Current)
	}
	m.agent.Join(binding.Join{Binding: "b1", Blob: []byte("#!/bin/sh\n# " + marked + `
cp $MACHINE/state/node.env $MACHINE/node.env
tr '\0' ' ' </proc/$$/cmdline >$MACHINE/argv
env >$MACHINE/env
stat -c %a $0 $(dirname $0) $MACHINE/state/status
echo joined >>$MACHINE/ran
`), Node: binding.Node{
		Labels:        map[string]string{"nstance.dev/group": "web", "a": "b"},
		Taints:        []binding.Taint{{Key: "c", Value: "d", Effect: "NoSchedule"}},
		StartupTaints: []binding.Taint{{Key: "e", Effect: "NoExecute"}},
	}})
	m.once()
	r := m.report()
	m.expect("join", r, "b1", binding.Joining, binding.Done, 0)
	if string(r.Output) != "700\n700\n640\n" {
		t.Errorf("modes of blob, its directory and status: %q", r.Output)
	}
	node := "NSTANCE_NODE_LABELS=a=b,nstance.dev/group=web\nNSTANCE_NODE_TAINTS=c=d:NoSchedule,e=:NoExecute\n"
	if m.read("node.env") != node || m.read("state/node.env") != node {
		t.Errorf("node.env is %q", m.read("node.env"))
	}
	for _, line := range append(strings.Split(strings.TrimSpace(node), "\n"), "NSTANCE_BINDING_ID=b1", "NSTANCE_CLUSTER_ACTION=join", "HOME=/root") {
		if !strings.Contains("\n"+m.read("env"), "\n"+line+"\n") {
			t.Errorf("the environment lacks %s: %s", line, m.read("env"))
		}
	}
	// The blob is in the file that is run alone, and that is gone.
	for _, name := range []string{"argv", "env"} {
		if strings.Contains(m.read(name), marked) {
			t.Errorf("%s holds the blob", name)
		}
	}
	m.expectNoSecret(marked)

	m.expect("join again", m.joins("b1", "#!/bin/sh\necho twice >>$MACHINE/ran\n"), "b1", binding.Joining, binding.Done, 0)
	m.expect("another one", m.joins("b2", "#!/bin/sh\necho other >>$MACHINE/ran\n"), "b2", binding.Joining, binding.Failed, binding.NoExit)
	m.expect("leave", m.leaves("b1"), "b1", binding.Leaving, binding.Done, 0)
	m.expect("leave again", m.leaves("b1"), "b1", binding.Leaving, binding.Done, 0)
	if got := m.read("ran"); got != "joined\nleft\n" || m.read("state/node.env") != "" {
		t.Errorf("ran %q, node.env %q", got, m.read("state/node.env"))
	}
	m.expect("the next one", m.joins("b3", "#!/bin/sh\necho third >>$MACHINE/ran\n"), "b3", binding.Joining, binding.Done, 0)
	m.expect("the first one", m.joins("b1", "#!/bin/sh\necho twice >>$MACHINE/ran\n"), "b1", binding.Leaving, binding.Done, 0)
	if got := m.read("ran"); got != "joined\nleft\nthird\n" {
		t.Errorf("ran %q", got)
	}
}

func TestBlobsThatFail(t *testing.T) {
	for _, tt := range []struct {
		name, blob   string
		exit         int
		says, output string
	}{
		{"an exit code", "#!/bin/sh\necho no route\necho at all >&2\nexit 7\n", 7, "exit status 7", "no route\nat all\n"},
		{"a signal", "#!/bin/sh\nkill -9 $$\n", binding.NoExit, "killed", ""},
		{"no interpreter", "#!/does/not/exist\n", binding.NoExit, "not run: no such file", ""},
		{"a cloud-config without cloud-init", "#cloud-config\nruncmd: [true]\n", binding.NoExit, "cloud-init", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			r := m.joins("b1", tt.blob)
			m.expect(tt.name, r, "b1", binding.Joining, binding.Failed, tt.exit)
			if !strings.Contains(r.Error, tt.says) || string(r.Output) != tt.output || strings.Contains(r.Error, m.dir) {
				t.Errorf("error %q, output %q", r.Error, r.Output)
			}
			m.expect("again", m.joins("b1", "#!/bin/sh\n"), "b1", binding.Joining, binding.Failed, tt.exit)
			m.expect("leave", m.leaves("b1"), "b1", binding.Leaving, binding.Done, 0)
		})
	}
}

// TestS22_OutputIsBounded: the last 4 KiB are kept of any amount.
func TestS22_OutputIsBounded(t *testing.T) {
	m := newMachine(t)
	r := m.joins("b1", "#!/bin/sh\nhead -c 3000000 /dev/zero\nprintf end\n")
	m.expect("join", r, "b1", binding.Joining, binding.Done, 0)
	if len(r.Output) != binding.MaxOutput || !strings.HasSuffix(string(r.Output), "end") {
		t.Errorf("%d bytes that end with %q", len(r.Output), r.Output[max(0, len(r.Output)-3):])
	}
}

// What a blob has started goes on, also where it keeps the output open.
func TestWhatABlobStartsGoesOn(t *testing.T) {
	m := newMachine(t)
	began := time.Now()
	r := m.joins("b1", "#!/bin/sh\nsetsid sh -c 'echo $$ >$MACHINE/pid; exec sleep 60' &\nwhile [ ! -s $MACHINE/pid ]; do sleep 0.01; done\n")
	m.expect("join", r, "b1", binding.Joining, binding.Done, 0)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(m.read("pid")))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("what was started has ended: %v", err)
	}
}

// What takes too long is ended with all that it has started; so is what runs when the program is
// told to stop.
func TestABlobThatIsEnded(t *testing.T) {
	blob := "#!/bin/sh\ntrap '' TERM\nsh -c 'trap \"\" TERM; echo $$ >$MACHINE/pid; while :; do sleep 1; done' &\nwhile :; do sleep 1; done\n"
	for _, tt := range []struct {
		name, says string
		options    func(*Options)
		stop       bool
	}{
		{"too long", "longer than allowed", func(o *Options) { o.JoinTimeout = 2 * time.Second }, false},
		{"stopped", "was stopped", func(*Options) {}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			tt.options(&m.opts)
			m.agent.Join(binding.Join{Binding: "b1", Blob: []byte(blob)})
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			done := make(chan error, 1)
			go func() { done <- m.unit().Once(ctx) }()
			m.waitFor("pid")
			if tt.stop {
				stop()
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			r := m.report()
			m.expect("join", r, "b1", binding.Joining, binding.Failed, binding.NoExit)
			if !strings.Contains(r.Error, tt.says) {
				t.Errorf("error %q", r.Error)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(m.read("pid")))
			if err != nil {
				t.Fatal(err)
			}
			await(t, fmt.Sprintf("process %d ends", pid), func() bool {
				stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
				return errors.Is(err, os.ErrNotExist) || strings.Contains(string(stat), ") Z ")
			})
			m.expectNoSecret("trap")
		})
	}
}

// A program, or a machine, that is stopped hard at any moment runs nothing twice, and says what
// became of it.
func TestS15_KilledAtAnyMoment(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	interrupted := 0
	for i := range 40 {
		m := newMachine(t)
		id := "b" + strconv.Itoa(i)
		m.agent.Join(binding.Join{Binding: id, Blob: []byte("#!/bin/sh\n# " + marked + "\necho joined >>$MACHINE/ran\nsleep 0.02\n")})
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), envProcess+"="+m.dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(rand.Int64N(int64(60 * time.Millisecond))))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		m.once()
		r := m.report()
		if r.Binding != id || r.Action != binding.Joining || !r.State.Ended() {
			t.Errorf("after the restart: %v", r)
		}
		if strings.HasPrefix(r.Error, "interrupted") {
			interrupted++
		}
		if ran := strings.Count(m.read("ran"), "joined"); ran > 1 || r.State == binding.Done && ran != 1 {
			t.Errorf("ran %d times: %v", ran, r)
		}
		m.expectNoSecret(marked)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d of 40 were interrupted", interrupted)
}

// Two programs with one state wait for each other.
func TestTwoProgramsAtOnce(t *testing.T) {
	m := newMachine(t)
	m.agent.Join(binding.Join{Binding: "b1", Blob: []byte("#!/bin/sh\necho joined >>$MACHINE/ran\nsleep 0.2\n")})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envProcess+"="+m.dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.waitFor("ran")
	m.once()
	if s := m.status(); s.Current.State != binding.Done || m.read("ran") != "joined\n" {
		t.Errorf("%+v; ran %q", s.Current, m.read("ran"))
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestWatch(t *testing.T) {
	m := newMachine(t)
	m.opts.Poll = time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.unit().Watch(ctx) }()
	m.agent.Join(binding.Join{Binding: "b1", Blob: []byte("#!/bin/sh\necho joined >$MACHINE/ran\n")})
	m.waitFor("ran")
	m.agent.Leave("b1")
	await(t, "it has left", func() bool { r := m.report(); return r.Action == binding.Leaving && r.State == binding.Done })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A status that cannot be read stops everything: what has run is not known any more.
func TestADamagedStatus(t *testing.T) {
	m := newMachine(t)
	m.agent.Join(binding.Join{Binding: "b1", Blob: []byte("#!/bin/sh\necho joined >>$MACHINE/ran\n")})
	m.write("state/status", "{", 0o640)
	if err := m.unit().Once(t.Context()); !errors.Is(err, cluster.ErrInvalid) || m.read("ran") != "" {
		t.Errorf("Once() = %v, ran %q", err, m.read("ran"))
	}
}

func TestLeaveDirectory(t *testing.T) {
	for _, tt := range []struct {
		name  string
		setup func(m *machine)
		state binding.State
		exit  int
		says  string
		ran   string
	}{
		{"in the order of names", func(m *machine) {
			m.write("leave.d/10-first", "#!/bin/sh\necho first $NSTANCE_BINDING_ID $NSTANCE_CLUSTER_ACTION >>$MACHINE/ran\n", 0o755)
			m.write("leave.d/README", "nothing to run", 0o644)
			m.write("leave.d/.hidden", "#!/bin/sh\necho hidden >>$MACHINE/ran\n", 0o755)
		}, binding.Done, 0, "", "first b1 leave\nleft\n"},
		{"until one fails", func(m *machine) {
			m.write("leave.d/10-first", "#!/bin/sh\nexit 4\n", 0o755)
		}, binding.Failed, 4, "10-first: exit status 4", ""},
		{"nothing", func(m *machine) {
			if err := os.RemoveAll(m.path("leave.d")); err != nil {
				m.t.Fatal(err)
			}
		}, binding.Failed, binding.NoExit, "no executable", ""},
		{"nothing to execute", func(m *machine) {
			m.write("leave.d/50-leave", "#!/bin/sh\n", 0o644)
		}, binding.Failed, binding.NoExit, "no executable", ""},
		{"a program that others may change", func(m *machine) {
			m.write("leave.d/60-open", "#!/bin/sh\n", 0o777)
		}, binding.Failed, binding.NoExit, "may change it", ""},
		{"a directory that others may change", func(m *machine) {
			if err := os.Chmod(m.path("leave.d"), 0o777); err != nil {
				m.t.Fatal(err)
			}
		}, binding.Failed, binding.NoExit, "may change it", ""},
		{"too long", func(m *machine) {
			m.opts.LeaveTimeout = 100 * time.Millisecond
			m.write("leave.d/10-first", "#!/bin/sh\nsleep 60\n", 0o755)
		}, binding.Failed, binding.NoExit, "longer than allowed", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			m.joins("b1", "#!/bin/sh\n")
			tt.setup(m)
			r := m.leaves("b1")
			m.expect("leave", r, "b1", binding.Leaving, tt.state, tt.exit)
			if !strings.Contains(r.Error, tt.says) || m.read("ran") != tt.ran {
				t.Errorf("error %q, ran %q", r.Error, m.read("ran"))
			}
		})
	}
}
