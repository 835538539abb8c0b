// Command nstance-server-gcp is the shard server whose machines are instances of
// Google Compute Engine.
package main

import (
	"context"
	"fmt"
	"net/netip"

	"nstance.dev/providers/gcp"
	"nstance.dev/providers/gcp/rules"
	"nstance.dev/server/driver"
	"nstance.dev/server/serve"
)

var version = "dev" // set by the linker

func main() {
	serve.Main(serve.Provider{Kind: rules.Kind, Rules: rules.New(), New: newDriver}, version)
}

func newDriver(ctx context.Context, s serve.Settings) (driver.Driver, error) {
	opts, err := gcp.ParseOptions(s.Options)
	if err != nil {
		return nil, err
	}
	opts.Region, opts.Zone, opts.Log = s.Region, s.Zone, s.Log
	if s.LeaderNetwork != nil {
		if opts.LeaderIP, err = netip.ParseAddr(s.LeaderNetwork.IP); err != nil {
			return nil, fmt.Errorf("leader_network.ip: %w", err)
		}
	}
	return gcp.New(ctx, opts)
}
