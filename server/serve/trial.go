package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/configsource"
	"nstance.dev/server/keyring"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
)

// trial opens what another configuration names as a start does, and closes it again;
// what the server runs on stays as it is.
type trial struct {
	opts     Options
	store    objectstore.Store
	log      *slog.Logger
	own      func(port string) bool // whether a socket of this very server has a port
	haveKeys func() bool            // whether the cluster has keys already
}

// trialLimit bounds the trial of a configuration: a caller waits for it.
const trialLimit = 20 * time.Second

// leaseTimes is the remedy for election times that a lease cannot work with.
var leaseTimes = fmt.Sprintf("choose a lease of whole seconds between %v and %v, to be renewed after at most a third of it", lease.MinLease, lease.MaxLease)

// start says why this server could not start with a valid configuration (S26).
func (t *trial) start(ctx context.Context, cfg *effective.Config) error {
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	for _, part := range []struct {
		field, remedy string
		try           func(context.Context, *effective.Config) error
	}{
		{"server.shard_election", leaseTimes, t.election(cfg.Server.ShardElection)},
		{"server.cluster_election", leaseTimes, t.election(cfg.Server.ClusterElection)},
		{"server.secrets", "put what is missing where this server finds it: a new store or prefix needs the secrets of the old one, ca.key and registration-nonce.key among them", t.secrets},
		{"server.provider", "correct the provider's options, or what they name", t.provider},
		{"server.bind and server.advertise", "name addresses of this box, and ports that are free", t.addresses},
	} {
		if err := part.try(ctx, cfg); err != nil {
			return configsource.NotApplicable(fmt.Sprintf("%s: this server can't start with it: %v; %s", part.field, err, part.remedy))
		}
	}
	return nil
}

func (t *trial) election(e document.Election) func(context.Context, *effective.Config) error {
	return func(context.Context, *effective.Config) error {
		return electorOptions(e, t.opts.ID, "", lease.Addrs{}, t.log).Validate()
	}
}

// secrets opens the secrets store and, in a cluster that has them, reads the keys of
// the authority and of the nonces from it.
func (t *trial) secrets(ctx context.Context, cfg *effective.Config) error {
	keys, err := keyring.New(ctx, t.store, cfg, t.log)
	if err != nil {
		return err
	}
	err = keys.Check(ctx)
	if errors.Is(err, pki.ErrNotInitialized) && !t.haveKeys() {
		return nil // nobody has keys yet
	}
	return err
}

func (t *trial) provider(ctx context.Context, cfg *effective.Config) error {
	drv, err := newDriver(ctx, t.opts.Provider, cfg, t.log)
	if err != nil {
		return err
	}
	closeDriver(drv)
	return nil
}

// addresses opens the sockets. In place of a port that this very server has it takes
// a free one: it will have let go of it.
func (t *trial) addresses(ctx context.Context, cfg *effective.Config) error {
	s := boundTo(cfg.Server, t.opts.BindHost)
	for _, addr := range []*string{&s.Bind.Health, &s.Bind.Election, &s.Bind.Registration, &s.Bind.Operator, &s.Bind.Agent, &s.Bind.Metrics} {
		if host, port, err := net.SplitHostPort(*addr); err == nil && t.own(port) {
			*addr = net.JoinHostPort(host, "0")
		}
	}
	ls, err := listen(ctx, s, t.opts.AdvertiseHost, t.opts.Provider.FreePorts)
	if err != nil {
		return err
	}
	ls.close()
	return nil
}
