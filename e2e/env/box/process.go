package box

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// Process is a program that a box started, in a process group of its own. Its
// methods are safe for concurrent use.
type Process struct {
	Started time.Time
	PID     int

	cmd  *exec.Cmd
	out  string
	done chan struct{} // closed when it has ended
}

func start(path string, args []string, out string) (*Process, error) {
	f, err := os.Create(out)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &Process{Started: time.Now(), cmd: cmd, out: out, done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.PID = cmd.Process.Pid
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // ProcessState says how it ended
	}()
	return p, nil
}

// Output returns what the process has printed so far.
func (p *Process) Output() string {
	data, err := os.ReadFile(p.out)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Signal sends a signal to the process, if it has not ended.
func (p *Process) Signal(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig) // an error means that it has ended
}

// Kill ends the process without a chance to say goodbye, and waits for its end.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop asks the process to end, and returns its exit code.
func (p *Process) Stop(t testing.TB) int {
	t.Helper()
	p.Signal(syscall.SIGTERM)
	return p.Exit(t)
}

// Exit waits for the end of the process, and returns its exit code.
func (p *Process) Exit(t testing.TB) int {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-timer.C:
		t.Fatalf("%s still runs after %v", p.cmd, Patience)
		return -1
	}
}
