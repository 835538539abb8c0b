// Command nstance-server-aws is the shard server whose machines are instances of
// Amazon EC2.
package main

import (
	"context"

	"nstance.dev/providers/aws"
	"nstance.dev/providers/aws/rules"
	"nstance.dev/server/driver"
	"nstance.dev/server/serve"
)

var version = "dev" // set by the linker

func main() {
	serve.Main(serve.Provider{Kind: rules.Kind, New: newDriver, Rules: rules.New()}, version)
}

func newDriver(ctx context.Context, s serve.Settings) (driver.Driver, error) {
	opts, err := aws.ParseOptions(s.Options)
	if err != nil {
		return nil, err
	}
	opts.Region, opts.Zone, opts.Log = s.Region, s.Zone, s.Log
	if n := s.LeaderNetwork; n != nil {
		opts.LeaderIP, opts.LeaderInterface = n.IP, rules.LeaderInterface(n.Args)
	}
	return aws.New(ctx, opts)
}
