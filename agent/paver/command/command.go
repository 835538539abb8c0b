// Package command runs programs of the host for the paver. A program ends with the context of its
// command, and everything that it started with it; of what it writes the end is kept, for errors.
//
// How a program is found in a node machine is the business of package leader.
package command

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Output is what a command wrote, both streams together and at most [MaxOutput] bytes, and its
// exit code.
type Output struct {
	Code int
	Text []byte
}

// MaxOutput is how much of a command's output is kept: its end.
const MaxOutput = 64 << 10

// Run runs a command whose context ends its whole process group, and keeps the end of its output.
func Run(cmd *exec.Cmd) (Output, error) {
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	return run(cmd, &out)
}

// RunFor is [Run] for a command whose output goes elsewhere: only its errors are kept.
func RunFor(cmd *exec.Cmd) (Output, error) {
	var out tail
	cmd.Stderr = &out
	return run(cmd, &out)
}

func run(cmd *exec.Cmd, out *tail) (Output, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return Output{Code: exit.ExitCode(), Text: out.bytes()}, nil
	}
	if err != nil {
		return Output{Text: out.bytes()}, fmt.Errorf("run %s: %w", filepath.Base(cmd.Path), err)
	}
	return Output{Text: out.bytes()}, nil
}

// tail keeps the end of what is written to it.
type tail struct{ buf bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	t.buf.Write(p)
	if over := t.buf.Len() - MaxOutput; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

func (t *tail) bytes() []byte { return t.buf.Bytes() }
