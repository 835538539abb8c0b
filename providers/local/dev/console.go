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
	// consoleStop is how long it gets to end.
	consoleStop = 5 * time.Second
)

// console is the web console of the box: a process of the program beside this one.
type console struct {
	program string // empty: there is none beside this one
	context string // path of the CLI's context
	tell    func(string)
	log     *slog.Logger
}

// newConsole looks for the program where this one is.
func newConsole(context string, tell func(string), log *slog.Logger) *console {
	c := &console{context: context, tell: tell, log: log}
	self, err := os.Executable()
	if err != nil {
		return c
	}
	path := filepath.Join(filepath.Dir(self), adminProgram)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
		c.program = path
	}
	return c
}

// run serves the console until ctx ends, from when the first machine runs. What it prints,
// the addresses to log in with, is told.
func (c *console) run(ctx context.Context, serving *serve.Serving) {
	if c.program == "" {
		c.log.InfoContext(ctx, "no web console", "reason", adminProgram+" is not beside this program")
		return
	}
	if !firstMachine(ctx, serving) {
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

// lines tells of each write; what a logger writes is a line.
type lines struct{ tell func(string) }

func (l lines) Write(p []byte) (int, error) {
	l.tell(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}
