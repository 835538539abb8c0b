// Command nstance-server-proxmox is the shard server for a Proxmox VE cluster. It
// takes the address of the API and a token from the environment.
package main

import (
	"context"
	"os"

	"nstance.dev/providers/proxmox"
	"nstance.dev/server/driver"
	"nstance.dev/server/serve"
)

var version = "dev" // set by the linker

func main() {
	serve.Main(serve.Provider{Kind: "proxmox", New: newDriver, Rules: proxmox.Rules()}, version)
}

func newDriver(_ context.Context, s serve.Settings) (driver.Driver, error) {
	opts, err := proxmox.ParseOptions(s.Options)
	if err != nil {
		return nil, err
	}
	opts = opts.Environ(os.Getenv)
	opts.Region, opts.Shard, opts.Log = s.Region, s.Owner.Shard, s.Log
	return proxmox.New(opts)
}
