package executor

import (
	"context"
	"os/exec"

	"nstance.dev/agent/paver/command"
	"nstance.dev/agent/paver/runner/leader"
)

// Power is what takes a host down; the zero Power does so with this one.
type Power struct {
	// BootID is the boot of the host; nil: the kernel is asked.
	BootID func() string
	// Systemctl runs systemctl on the host; nil: it does.
	Systemctl func(ctx context.Context, args ...string) (command.Output, error)
}

func (p Power) withDefaults() Power {
	if p.BootID == nil {
		p.BootID = func() string {
			id, err := leader.HostBootID()
			if err != nil {
				return ""
			}
			return id
		}
	}
	if p.Systemctl == nil {
		p.Systemctl = func(ctx context.Context, args ...string) (command.Output, error) {
			return command.Run(exec.CommandContext(ctx, "systemctl", args...))
		}
	}
	return p
}
