package machines

import (
	"context"
	"fmt"
	"time"

	"nstance.dev/providers/proxmox/api"
	"nstance.dev/server/driver"
)

// reason says why a machine does not run, for people; empty where nobody knows. mode is
// the hypervisor process's own word, such as io-error. A node that does not say costs the
// reason and nothing else.
func (all *Machines) reason(ctx context.Context, m api.VM, status driver.Status, mode string) string {
	switch {
	case status == driver.Unknown && mode != "":
		return "its hypervisor process says " + mode
	case status != driver.Stopped && status != driver.Suspended:
		return ""
	}
	tasks, err := all.api.FinishedTasks(ctx, m)
	if err != nil {
		all.log.Debug("cannot read why a machine does not run", "machine", m.String(), "error", err)
		return ""
	}
	return reasonOf(tasks)
}

// reasonOf is what the last task that switched a machine says, the latest task being first.
func reasonOf(tasks []api.FinishedTask) string {
	for _, t := range tasks {
		when := time.Unix(t.Began, 0).UTC().Format(time.RFC3339)
		switch t.Type {
		case "qmstart", "qmreboot", "qmreset", "qmresume":
			if t.Status != "OK" {
				return fmt.Sprintf("%s by %s at %s: %s", t.Type, t.User, when, t.Status)
			}
			return fmt.Sprintf("it was started by %s at %s, and has ended by itself: its system was shut down, or its hypervisor process has died", t.User, when)
		case "qmstop", "qmshutdown", "qmsuspend", "qmpause", "hastop":
			return fmt.Sprintf("%s by %s at %s: %s", t.Type, t.User, when, t.Status)
		}
	}
	return ""
}
