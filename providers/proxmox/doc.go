// Package proxmox is Proxmox VE as a [nstance.dev/server/driver.Driver].
package proxmox

import (
	_ "github.com/luthermonson/go-proxmox"
	_ "nstance.dev/protos/identity"
	_ "nstance.dev/server/serve"
)
