package dev

import (
	"bufio"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"nstance.dev/server/serve"
)

const (
	adminProgram = "nstance-admin"
	// consoleDelay is how long the console waits for the first machine to run, which it
	// would take time from.
	consoleDelay = 5 * time.Second
	// programLook is how often the program is looked for while it is missing.
	programLook = time.Second
	// consoleStop is how long it gets to end.
	consoleStop = 5 * time.Second
)

// console is the web console of the box: a process of the program beside this one.
type console struct {
	program string // path; nothing needs to be there yet
	context string // path of the CLI's context
	tell    func(string)
	log     *slog.Logger
}

// newConsole is the console of the program in the directory of this one.
func newConsole(context string, tell func(string), log *slog.Logger) (*console, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &console{program: filepath.Join(filepath.Dir(self), adminProgram), context: context, tell: tell, log: log}, nil
}

// run serves the console until ctx ends, from when the first machine runs and the program is
// there. What it prints, the addresses to log in with, is told.
func (c *console) run(ctx context.Context, serving *serve.Serving) {
	if !firstMachine(ctx, serving) || !c.built(ctx) {
		return
	}
	// A child of Linux ends with the thread that has started it: this one stays.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, c.program, "console", "--context", c.context, "--allow-actions") //nolint:gosec // it is ours
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = consoleStop
	cmd.Stderr = lines{func(line string) { c.log.DebugContext(ctx, "console", "line", line) }}
	cmd.SysProcAttr = own()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.log.ErrorContext(ctx, "web console not started", "error", err)
		return
	}
	for text := bufio.NewScanner(out); text.Scan(); {
		c.tell(text.Text())
	}
	if err := cmd.Wait(); ctx.Err() == nil {
		c.log.ErrorContext(ctx, "web console ended", "error", err)
	}
}

// firstMachine waits until a machine runs, or for a while; it reports false if ctx ends first.
func firstMachine(ctx context.Context, serving *serve.Serving) bool {
	waiting, stop := context.WithTimeout(ctx, consoleDelay)
	defer stop()
	serving.Changes(waiting, func() {
		for _, m := range serving.Machines() {
			if m.Status == "running" {
				stop()
			}
		}
	})
	return ctx.Err() == nil
}

// built waits until the program is there: the first make dev compiles it while machines run
// already. It reports false if ctx ends first.
func (c *console) built(ctx context.Context) bool {
	for waits := false; ; waits = true {
		if info, err := os.Stat(c.program); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return true
		}
		if !waits {
			c.log.InfoContext(ctx, "no web console until its program is there", "program", c.program)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(programLook):
		}
	}
}

// lines tells of each write; what a logger writes is a line.
type lines struct{ tell func(string) }

func (l lines) Write(p []byte) (int, error) {
	l.tell(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}
