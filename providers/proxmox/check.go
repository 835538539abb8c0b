package proxmox

import (
	"context"
	"slices"

	"nstance.dev/server/driver"
)

// privileges are what the token needs somewhere; the documentation says what for.
var privileges = []string{
	"Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit",
	"SDN.Use", "Sys.Audit",
	"VM.Allocate", "VM.Audit", "VM.Clone",
	"VM.Config.CDROM", "VM.Config.CPU", "VM.Config.Cloudinit", "VM.Config.Disk", "VM.Config.Memory", "VM.Config.Network", "VM.Config.Options",
	"VM.PowerMgmt",
}

// Check asks the API who this is. The error is of a token or a certificate that is not
// accepted: no time makes that better. An API that cannot be reached, and privileges that
// are missing, are logged: the first may pass, and what the others are for may not be needed.
func (d *Driver) Check(ctx context.Context) error {
	granted, err := d.api.permissions(ctx)
	switch {
	case err != nil && kindOf(err) == driver.Auth:
		return fail("check the token", err)
	case err != nil:
		d.opts.Log.Warn("the API of Proxmox VE does not answer; the server starts all the same", "url", d.opts.URL, "error", err)
		return nil
	}
	lacks := slices.DeleteFunc(slices.Clone(privileges), func(p string) bool { return slices.Contains(granted, p) })
	if len(lacks) > 0 {
		d.opts.Log.Warn("the token lacks privileges; deploy/proxmox/token.sh adds them to its role", "token", d.opts.TokenID, "missing", lacks)
	}
	return nil
}
