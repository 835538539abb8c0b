package unit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"nstance.dev/agent/cluster"
	"nstance.dev/protos/binding"
)

// Environment of what is run. Labels and taints have the form of the kubelet's flags
// --node-labels and --register-with-taints.
const (
	envBinding = "NSTANCE_BINDING_ID"
	envAction  = "NSTANCE_CLUSTER_ACTION"
	envLabels  = "NSTANCE_NODE_LABELS"
	envTaints  = "NSTANCE_NODE_TAINTS"
)

// outcome is how a program ended.
type outcome struct {
	exit int
	err  string // empty: with exit code 0
}

var succeeded = outcome{}

// command runs a program to its end, or until ctx ends, and returns how it ended. What it prints
// goes to output; it reads nothing.
func (u *Unit) command(ctx context.Context, output *tail, env []string, path string, args ...string) outcome {
	cmd, err := started(ctx, func() *exec.Cmd {
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = "/", env, output, output
		// A group of its own: what is ended is ended with all that it has started.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
		cmd.WaitDelay = u.opts.Grace
		return cmd
	})
	if err != nil {
		return outcome{binding.NoExit, reason(err)}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return succeeded
	case ctx.Err() != nil:
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what did not end when it was told to
		return outcome{binding.NoExit, interruption(ctx)}
	case errors.Is(err, exec.ErrWaitDelay): // what it has started goes on
		return succeeded
	case errors.As(err, &exit):
		return outcome{exit.ExitCode(), exit.String()}
	}
	return outcome{binding.NoExit, reason(err)}
}

// busyTime is how long a program that is still open for writing is tried again.
const busyTime = 2 * time.Second

// started starts what build returns. A file that was just written can't be run while a process has it
// open for writing, and each process that another thread of this one starts has it open for a
// moment, between fork and exec (https://go.dev/issue/22315): it is tried again.
func started(ctx context.Context, build func() *exec.Cmd) (*exec.Cmd, error) {
	for waited, wait := time.Duration(0), time.Millisecond; ; waited, wait = waited+wait, 2*wait {
		cmd := build()
		err := cmd.Start()
		if !errors.Is(err, syscall.ETXTBSY) || waited > busyTime {
			return cmd, err
		}
		select {
		case <-ctx.Done():
			return cmd, err
		case <-time.After(wait):
		}
	}
}

// interruption is why a program was ended.
func interruption(ctx context.Context) string {
	if why := context.Cause(ctx); errors.Is(why, errTimeout) {
		return why.Error()
	}
	return "interrupted: nstance-cluster.service was stopped"
}

// reason is why a program was not run, without its path.
func reason(err error) string {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		err = path.Err
	}
	return "not run: " + err.Error()
}

// environment is what a program is told beside what this one was.
func environment(base []string, r cluster.Request) []string {
	env := slices.Concat(base, []string{
		envBinding + "=" + r.Binding, envAction + "=" + string(r.Action), envLabels + "=" + r.Node.LabelFlag(), envTaints + "=" + r.Node.TaintFlag(),
	})
	if !has(base, "PATH") {
		env = append(env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	if !has(base, "HOME") { // services of the system have none, and kubectl and others want one
		env = append(env, "HOME=/root")
	}
	return env
}

func has(env []string, name string) bool {
	for _, e := range env {
		if strings.HasPrefix(e, name+"=") {
			return true
		}
	}
	return false
}

// tail keeps the end of what is written to it.
type tail struct{ data []byte }

// Write implements [io.Writer].
func (t *tail) Write(b []byte) (int, error) {
	t.data = append(t.data, binding.Last(b)...)
	if len(t.data) > 2*binding.MaxOutput {
		t.data = append(t.data[:0], binding.Last(t.data)...)
	}
	return len(b), nil
}

// last returns the end of what was written.
func (t *tail) last() []byte { return binding.Last(t.data) }

// note adds a line of this program's own.
func (t *tail) note(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }
