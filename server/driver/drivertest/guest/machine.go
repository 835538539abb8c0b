package guest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nstance.dev/protos/identity"
)

// Options say what a machine is. Dir and UserData are required.
type Options struct {
	Dir      string            // the machine's own directory, absolute; made if it is missing
	UserData []byte            // see ParseUserData
	Agent    string            // path of the agent's program, absolute; empty: machines have none
	Files    map[string]string // what the image has under Mapped: path and content
	Env      []string          // NAME=VALUE, beside the machine's own variables

	// EveryBoot runs the user data at every boot, as Google Cloud does with a start-up
	// script, and not only at the first one.
	EveryBoot bool

	// Grace is the time between the polite signal and the killing one; 5s.
	Grace time.Duration
}

// Machine is a machine that runs. Its methods may be called concurrently.
type Machine struct {
	group int // its leader is our child, which is not waited for before the end
	cmd   *exec.Cmd
	gate  *os.File // its other end is the leader's standard input
	life  *os.File // ends with the last process
	grace time.Duration
	once  sync.Once
}

// Start boots a machine, and returns when its user data, or what was enabled by it,
// begins to run. The caller stops or kills it.
func Start(o Options) (*Machine, error) {
	if !filepath.IsAbs(o.Dir) || o.Agent != "" && !filepath.IsAbs(o.Agent) {
		return nil, fmt.Errorf("guest: directory %q and agent %q must be absolute paths", o.Dir, o.Agent)
	}
	if o.Grace <= 0 {
		o.Grace = 5 * time.Second
	}
	if err := o.prepare(); err != nil {
		return nil, fmt.Errorf("guest %s: %w", o.Dir, err)
	}
	m, err := o.start()
	if err != nil {
		return nil, fmt.Errorf("guest %s: %w", o.Dir, err)
	}
	return m, nil
}

// start makes the processes.
func (o Options) start() (_ *Machine, err error) {
	var open []*os.File
	defer func() {
		for _, f := range open {
			_ = f.Close() // the child has its own
		}
	}()
	log, err := os.OpenFile(o.path(machineLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, private)
	if err != nil {
		return nil, err
	}
	open = append(open, log)
	stdin, gate, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	open = append(open, stdin)
	life, alive, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, gate.Close())
	}
	open = append(open, alive)
	cmd := exec.Command("/bin/sh", o.path(initFile), o.path(bootFile))
	cmd.Dir, cmd.Env = o.path(rootDir), o.environment()
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = stdin, log, log, []*os.File{alive}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, gate.Close(), life.Close())
	}
	return &Machine{group: cmd.Process.Pid, cmd: cmd, gate: gate, life: life, grace: o.Grace}, nil
}

// environment is all that a machine learns from that of this process, which may hold
// the keys of a cloud.
func (o Options) environment() []string {
	agent := o.path(rootDir + "/opt/nstance-agent")
	env := []string{
		"PATH=" + o.path(binDir) + ":" + o.path(rootDir+"/usr/local/bin") + ":/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + o.path(rootDir), "LANG=C", "GUEST_DIR=" + o.Dir,
		// What the agent takes for granted where nothing is said.
		identity.EnvIdentityDir + "=" + agent + "/identity",
		identity.EnvKeysDir + "=" + agent + "/keys",
		identity.EnvRecvDir + "=" + agent + "/recv",
		identity.EnvClusterDir + "=" + agent + "/cluster",
		identity.EnvClusterStatus + "=" + o.path(rootDir+"/var/lib/nstance-cluster/status"),
	}
	return append(env, o.Env...)
}

// Stop ends the machine as its cloud does that asks it to shut down, and kills it if it
// does not. It returns when nothing of it runs any more.
func (m *Machine) Stop() {
	m.once.Do(func() {
		_ = unix.Kill(-m.group, unix.SIGTERM) // the leader is there until it is waited for
		m.await(m.grace)
		m.end()
	})
}

// Kill ends the machine as a loss of power does, and returns when nothing of it runs
// any more.
func (m *Machine) Kill() { m.once.Do(m.end) }

// killed is how long the kernel may take to end what was killed.
const killed = 10 * time.Second

func (m *Machine) end() {
	_ = unix.Kill(-m.group, unix.SIGKILL)
	_ = m.cmd.Wait() // killed is no success
	m.await(killed)
	_, _ = m.gate.Close(), m.life.Close()
}

// await waits until nothing that the machine runs is left, or d has passed.
func (m *Machine) await(d time.Duration) {
	_ = m.life.SetReadDeadline(time.Now().Add(d))
	_, _ = m.life.Read(make([]byte, 1)) // nobody writes: it is the end, or the deadline
}
