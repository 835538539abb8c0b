package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"

	"github.com/spf13/cobra"

	"nstance.dev/server/config"
	"nstance.dev/server/config/document"
	"nstance.dev/server/driver"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/backends"
)

// Provider is what one provider's build adds to the server.
type Provider struct {
	// Kind is what server.provider.kind has to be.
	Kind string
	// Rules are the provider's part of the configuration's checks; may be nil.
	Rules *driver.Rules
	// New makes the driver before anything leads. A server that starts anew makes
	// another one; the one before, if it is a [driver.Closer], is closed then.
	New func(ctx context.Context, s Settings) (driver.Driver, error)
	// FreePorts lets a server take a free port where the configured one is taken.
	FreePorts bool
	// Commands are the build's own besides serve and version.
	Commands []*cobra.Command
}

// Settings are what the configuration says about the provider.
type Settings struct {
	Options map[string]any // server.provider.options
	Region  string
	Zone    string
	Owner   driver.Owner
	Log     *slog.Logger

	// LeaderNetwork is the address that moves with leadership, for a driver that
	// is a [driver.LeaderNetwork]; nil without one.
	LeaderNetwork *LeaderNetwork
}

// LeaderNetwork is server.leader_network of the configuration.
type LeaderNetwork = document.LeaderNetwork

// Options are what one run of a server needs. OnServing may be nil.
type Options struct {
	Flags
	Provider Provider
	Version  string
	Log      *slog.Logger

	// OnServing is called, in a goroutine of its own, each time this server has
	// taken the shard over; its context ends with the leadership.
	OnServing func(ctx context.Context, s *Serving)
}

// Flags are what a server process is told on its command line.
type Flags struct {
	ID            string // unique among the servers of the cluster; required
	Shard         string // required
	Storage       string // a kind of backends; required
	Bucket        string // its name, or a directory; required
	Prefix        string // of every key; empty: none
	CacheDir      string // ./cache
	BindHost      string // overrides the host of every address in server.bind
	AdvertiseHost string // overrides the host of the health and election addresses
	Debug         bool
}

// check reports every flag that is missing or wrong.
func (f Flags) check() error {
	var errs []error
	for _, required := range []struct{ name, value string }{
		{"--id", f.ID}, {"--shard", f.Shard}, {"--storage", f.Storage}, {"--bucket", f.Bucket},
	} {
		if required.value == "" {
			errs = append(errs, fmt.Errorf("%s is required", required.name))
		}
	}
	if f.Storage != "" {
		if err := backends.CheckKind(f.Storage); err != nil {
			errs = append(errs, fmt.Errorf("--storage: %w", err))
		}
	}
	if _, err := netip.ParseAddr(f.BindHost); f.BindHost != "" && err != nil {
		errs = append(errs, fmt.Errorf("--bind-host %q is not an IP address", f.BindHost))
	}
	if f.Shard != "" && layout.LeaderKey(f.Shard) == "" {
		errs = append(errs, fmt.Errorf("--shard %q is not a valid name", f.Shard))
	}
	if err := errors.Join(errs...); err != nil {
		return &usageError{err}
	}
	return nil
}

func (f Flags) cachePath() string { return filepath.Join(f.CacheDir, "db", "nstance.db") }

func loadOptions(f Flags, p Provider) config.LoadOptions {
	return config.LoadOptions{Shard: f.Shard, Storage: f.Storage, Rules: p.Rules}
}

// add adds what both serve and release are told.
func (f *Flags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.ID, "id", "", "unique id of this server (required)")
	fl.StringVar(&f.Shard, "shard", "", "shard that it serves; equals server.shard of the configuration (required)")
	fl.StringVar(&f.Storage, "storage", "", "kind of storage: s3, gcs or file (required)")
	fl.StringVar(&f.Bucket, "bucket", "", "name of the bucket, or for file storage a directory (required)")
	fl.StringVar(&f.Prefix, "prefix", "", "prefix of every key in the bucket")
	fl.StringVar(&f.CacheDir, "cachedir", "./cache", "directory of the cache; this server's alone")
	fl.StringVar(&f.BindHost, "bind-host", "", "IP address that overrides the one in every address of server.bind")
	fl.StringVar(&f.AdvertiseHost, "advertise-host", "", "host that overrides the one in advertise.health_addr and advertise.election_addr")
	fl.BoolVarP(&f.Debug, "debug", "v", false, "log more, and offer gRPC reflection")
}
