package proxmox

import (
	"context"
	"slices"

	"nstance.dev/providers/proxmox/api"
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
	granted, err := d.api.Permissions(ctx)
	switch {
	case err != nil && api.KindOf(err) == driver.Auth:
		return api.Fail("check the token", err)
	case err != nil:
		d.opts.Log.Warn("API of Proxmox VE unreachable; starting anyway", "url", d.opts.URL, "error", err)
		return nil
	}
	lacks := slices.DeleteFunc(slices.Clone(privileges), func(p string) bool { return slices.Contains(granted, p) })
	if len(lacks) > 0 {
		d.opts.Log.Warn("API token lacks privileges; add them to its role with deploy/proxmox/token.sh", "token", d.opts.TokenID, "missing", lacks)
	}
	return nil
}
