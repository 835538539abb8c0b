package cli_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"nstance.dev/admin/cli"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// watching is a command that runs until it is stopped.
type watching struct {
	console *console
	done    chan int
	cancel  context.CancelFunc
}

// watch starts a command that follows something.
func (c *console) watch(t *testing.T, args ...string) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{console: c, done: make(chan int, 1), cancel: cancel}
	c.out.wrote = make(chan struct{}, 1000)
	go func() { w.done <- c.run(ctx, args...) }()
	t.Cleanup(cancel)
	return w
}

// await returns once n lines have been printed.
func (w *watching) await(t *testing.T, n int) []string {
	t.Helper()
	for {
		lines := strings.Split(strings.TrimSpace(w.console.out.String()), "\n")
		if len(lines) >= n && lines[0] != "" {
			return lines
		}
		select {
		case <-w.console.out.wrote:
		case code := <-w.done:
			t.Fatalf("it ended with code %d; output:\n%s\nerrors:\n%s", code, w.console.out.String(), w.console.err.String())
		}
	}
}

// stop interrupts the command, which is no failure.
func (w *watching) stop(t *testing.T) {
	t.Helper()
	w.cancel()
	if code := <-w.done; code != cli.ExitOK {
		t.Errorf("exit code %d, errors %s", code, w.console.err.String())
	}
}

func TestWatchGroups(t *testing.T) {
	c := newConsole(t)
	w := c.watch(t, "watch", "groups", "-o", "json")
	w.await(t, 1)
	c.local.AddGroup(&nstancev1.GroupStatus{Key: "new"})
	lines := w.await(t, 2)
	for i, want := range []string{"web", "new"} {
		var event struct {
			Type  string
			Group struct{ Key string }
		}
		if err := json.Unmarshal([]byte(lines[i]), &event); err != nil || event.Type != "UPSERT" || event.Group.Key != want {
			t.Errorf("line %d is %s, %v", i, lines[i], err)
		}
	}
	w.stop(t)
}

func TestAWatchGoesOnWithTheNextLeader(t *testing.T) {
	c := newConsole(t)
	w := c.watch(t, "watch", "groups")
	w.await(t, 2)
	c.local.BreakStreams()
	c.local.AddGroup(&nstancev1.GroupStatus{Key: "new", Template: "worker"})
	lines := w.await(t, 3)
	if !strings.HasPrefix(lines[2], "UPSERT   new") || strings.Count(c.out.String(), "web") != 1 {
		t.Errorf("output is:\n%s", c.out.String())
	}
	if !strings.Contains(c.err.String(), "opening it again") {
		t.Errorf("errors are %q", c.err.String())
	}
	w.stop(t)
}

func TestGroupListWatchShowsCounts(t *testing.T) {
	c := newConsole(t)
	c.local.Frozen = true
	w := c.watch(t, "group", "list", "--watch")
	w.await(t, 2)
	scale := &console{env: c.env}
	scale.ok(t, "group", "scale", "web", "0")
	lines := w.await(t, 3)
	if got := strings.Fields(lines[len(lines)-1]); got[0] != "web" || got[2] != "0" {
		t.Errorf("after the group was scaled the last line is %q", got)
	}
	w.stop(t)
}

func TestInstanceListWatch(t *testing.T) {
	c := newConsole(t)
	w := c.watch(t, "instance", "list", "--watch", "-o", "json")
	w.await(t, 2)
	scale := &console{env: c.env}
	scale.ok(t, "group", "scale", "web", "1", "--wait")
	lines := w.await(t, 3)
	var last struct{ Status string }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Status != "terminating" && last.Status != "terminated" {
		t.Errorf("the last line is %s, %v", lines[len(lines)-1], err)
	}
	w.stop(t)
}

func TestWatchInstancesLeavesOutTheSignsOfTheStream(t *testing.T) {
	c := newConsole(t)
	w := c.watch(t, "watch", "instances")
	<-c.local.Watched()
	scale := &console{env: c.env}
	scale.ok(t, "group", "scale", "web", "1", "--wait")
	for _, line := range w.await(t, 3)[1:] {
		if !strings.HasPrefix(line, "knc") {
			t.Errorf("there is a line %q", line)
		}
	}
	w.stop(t)
}
