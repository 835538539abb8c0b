// Command nstance-server-local is the shard server whose machines are processes
// of this box: for trying things out, for tests, and for a single host.
package main

import (
	"context"

	"nstance.dev/providers/local"
	"nstance.dev/providers/local/dev"
	"nstance.dev/providers/local/rules"
	"nstance.dev/server/driver"
	"nstance.dev/server/serve"
)

var version = "dev" // set by the linker

func main() {
	p := serve.Provider{Kind: rules.Kind, FreePorts: true, New: newDriver, Rules: rules.New()}
	p.Commands = append(p.Commands, dev.NewCommand(p, version))
	serve.Main(p, version)
}

func newDriver(_ context.Context, s serve.Settings) (driver.Driver, error) {
	opts, err := local.ParseOptions(s.Options)
	if err != nil {
		return nil, err
	}
	opts.Shard, opts.Log = s.Owner.Shard, s.Log
	return local.New(opts)
}
