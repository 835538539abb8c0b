package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	pve "github.com/luthermonson/go-proxmox"
)

// FinishedTask is a task that has ended, as its node lists it.
type FinishedTask struct {
	ID     string `json:"upid"`
	Type   string `json:"type"`
	User   string `json:"user"`
	Status string `json:"status"` // the exit status
	Began  int64  `json:"starttime"`
}

// FinishedTasks lists the last tasks about a machine that have ended, the latest first. Those about another one that had its
// number before are left out: it may have been another tenant's (S12).
func (a *Client) FinishedTasks(ctx context.Context, m VM) (list []FinishedTask, err error) {
	err = repeatBroken(ctx, func() error {
		return a.client.GetWithParams(ctx, fmt.Sprintf("/nodes/%s/tasks", m.Node), map[string]any{"vmid": m.Number, "limit": lastTasks}, &list)
	})
	if end := slices.IndexFunc(list, FinishedTask.endsNumber); end >= 0 {
		list = list[:end]
	}
	return list, unwrapHTTP(err)
}

// endsNumber reports whether the number was free on the node after the task.
func (t FinishedTask) endsNumber() bool {
	switch t.Type {
	case "qmdestroy", "vzdestroy", "qmigrate", "vzmigrate":
		return t.Status == "OK" || strings.HasPrefix(t.Status, "WARNINGS")
	}
	return false
}

// TaskLog returns the first lines of what a task has noted, in order.
func (a *Client) TaskLog(ctx context.Context, upid string) (lines []string, err error) {
	err = repeatBroken(ctx, func() error {
		log, err := pve.NewTask(pve.UPID(upid), a.client).Log(ctx, 0, logLines)
		lines = nil
		for _, n := range slices.Sorted(maps.Keys(log)) {
			lines = append(lines, log[n])
		}
		return err
	})
	return lines, unwrapHTTP(err)
}

// lastTasks is how many are listed: backups and changes of the configuration are among them.
const lastTasks = 20

// Pauses between two looks at a task.
const (
	firstPause   = 100 * time.Millisecond
	LongestPause = time.Second
)

// Wait waits for the end of a task: nil if it did its work, a *refusal with its words
// if it failed. It gives up when ctx ends, or quit is closed.
func (a *Client) Wait(ctx context.Context, upid pve.UPID, quit <-chan struct{}) error {
	if upid == "" {
		return nil // the work was done in the call
	}
	for pause := firstPause; ; pause = min(pause*3/2, LongestPause) {
		task := pve.NewTask(upid, a.client)
		if err := repeatBroken(ctx, func() error { return task.Ping(ctx) }); err != nil {
			return unwrapHTTP(err)
		}
		if task.Status != pve.TaskRunning {
			return a.outcome(ctx, task)
		}
		select {
		case <-time.After(pause):
		case <-quit:
			return ErrQuit
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ErrQuit says that nobody waits for a task any more.
var ErrQuit = errors.New("not waited for")

// outcome is what a task that has ended says. Some causes stand in its log only.
func (a *Client) outcome(ctx context.Context, task *pve.Task) error {
	if task.ExitStatus == "OK" || strings.HasPrefix(task.ExitStatus, "WARNINGS") {
		return nil
	}
	r := &Refusal{reason: task.ExitStatus}
	if log, err := task.Log(ctx, 0, logLines); err == nil {
		r.detail = lastWords(log, task.ExitStatus)
	}
	return r
}

const logLines = 50

// lastWords are the last lines of a task's log before the one that says its end.
func lastWords(log pve.Log, exit string) string {
	var kept []string
	for _, n := range slices.Sorted(maps.Keys(log)) {
		if line := strings.TrimSpace(log[n]); line != "" && line != "no content" && !strings.Contains(line, exit) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept[max(0, len(kept)-3):], "; ")
}
