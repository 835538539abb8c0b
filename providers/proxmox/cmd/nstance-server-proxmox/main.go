// Command nstance-server-proxmox is the shard server for a Proxmox VE cluster. It
// takes the address of the API and a token from the environment.
package main

import (
	"context"
	"os"
	"time"

	"nstance.dev/providers/proxmox"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
	"nstance.dev/server/serve"
)

var version = "dev" // set by the linker

func main() {
	serve.Main(serve.Provider{Kind: rules.Kind, New: newDriver, Rules: rules.New()}, version)
}

// checkTimeout is how long the API may take to say whether it knows the token.
const checkTimeout = 15 * time.Second

func newDriver(ctx context.Context, s serve.Settings) (driver.Driver, error) {
	opts, err := proxmox.ParseOptions(s.Options)
	if err != nil {
		return nil, err
	}
	opts = opts.Environ(os.Getenv)
	opts.Region, opts.Shard, opts.Log = s.Region, s.Owner.Shard, s.Log
	d, err := proxmox.New(opts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := d.Check(ctx); err != nil {
		return nil, err
	}
	return d, nil
}
