package machines

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"nstance.dev/providers/proxmox/api"
	"nstance.dev/server/driver"
)

// loggedTasks is of how many tasks the log is read: each costs a call.
const loggedTasks = 5

// Log returns what the last tasks about a machine have done and noted, the latest last. What a
// machine writes to its console Proxmox VE keeps nowhere.
func (all *Machines) Log(ctx context.Context, ref driver.Ref) (driver.Output, error) {
	_, found, err := all.find(ctx, ref)
	switch {
	case err != nil:
		return driver.Output{}, err
	case len(found) == 0:
		return driver.Output{}, api.Errorf(driver.NotFound, "no machine is called %s", ref.InstanceID)
	}
	tasks, err := all.api.FinishedTasks(ctx, found[0].VM)
	if err != nil {
		return driver.Output{}, err
	}
	var text strings.Builder
	for i, t := range slices.Backward(tasks) {
		fmt.Fprintf(&text, "%s %s by %s: %s\n", time.Unix(t.Began, 0).UTC().Format(time.RFC3339), t.Type, t.User, t.Status)
		if i >= loggedTasks {
			continue
		}
		lines, err := all.api.TaskLog(ctx, t.ID)
		if err != nil {
			all.log.Debug("cannot read the log of a task", "task", t.ID, "error", err)
			continue
		}
		for _, line := range lines {
			fmt.Fprintf(&text, "  %s\n", line)
		}
	}
	data := []byte(text.String())
	extra := max(0, len(data)-driver.MaxOutput)
	return driver.Output{Data: data[extra:], Cut: extra > 0}, nil
}
