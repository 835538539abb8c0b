package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/lease"
	"nstance.dev/server/pki"
	"nstance.dev/server/refusal"
)

// reasonNotApplicable is the reason of a refusal to put a valid configuration in force.
const reasonNotApplicable = "CONFIG_NOT_APPLICABLE"

// notApplicable refuses a stored configuration that is valid and can't be in force.
func notApplicable(why string) error {
	return &refusal.Error{
		Code: refusal.FailedPrecondition, Reason: reasonNotApplicable,
		Message: why + "; the configuration before stays in force",
	}
}

var errOtherCluster = notApplicable("server.cluster_id has changed, and certificates and records name the cluster that they are of; put the old name back")

// trialLimit bounds the trial of a configuration: a caller waits for it.
const trialLimit = 20 * time.Second

// tryStart says why this server could not start with a valid configuration. It
// opens what the configuration names as a start does, and closes it again; what the
// server runs on stays as it is (S26).
func (p *process) tryStart(ctx context.Context, cfg *config.Config) error {
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	for _, part := range []struct {
		field, remedy string
		try           func(context.Context, *config.Config) error
	}{
		{"server.shard_election", "choose times that a lease can have", p.tryElection(cfg.Server.ShardElection)},
		{"server.cluster_election", "choose times that a lease can have", p.tryElection(cfg.Server.ClusterElection)},
		{"server.secrets", "put what is missing where this server finds it: a new store or prefix needs the secrets of the old one, ca.key and registration-nonce.key among them", p.trySecrets},
		{"server.provider", "correct the provider's options, or what they name", p.tryProvider},
		{"server.bind and server.advertise", "name addresses of this box, and ports that are free", p.tryAddresses},
	} {
		if err := part.try(ctx, cfg); err != nil {
			return notApplicable(fmt.Sprintf("%s: this server can't start with it: %v; %s", part.field, err, part.remedy))
		}
	}
	return nil
}

func (p *process) tryElection(e config.Election) func(context.Context, *config.Config) error {
	return func(context.Context, *config.Config) error {
		return electorOptions(e, p.opts.ID, "", lease.Addrs{}, p.log).Validate()
	}
}

// trySecrets opens the secrets store and, in a cluster that has them, reads the keys of
// the authority and of the nonces from it.
func (p *process) trySecrets(ctx context.Context, cfg *config.Config) error {
	keys, err := newKeyring(ctx, p.store, cfg, p.log)
	if err != nil {
		return err
	}
	_, err = keys.load(ctx) // makes none: it does not lead
	if errors.Is(err, pki.ErrNotInitialized) && p.keys.current() == nil {
		return nil // nobody has keys yet
	}
	return err
}

func (p *process) tryProvider(ctx context.Context, cfg *config.Config) error {
	drv, err := p.newDriver(ctx, cfg)
	if err != nil {
		return err
	}
	if c, ok := drv.(driver.Closer); ok {
		c.Close()
	}
	return nil
}

// tryAddresses opens the sockets. In place of a port that this very server has it takes
// a free one: it will have let go of it.
func (p *process) tryAddresses(ctx context.Context, cfg *config.Config) error {
	s := boundTo(cfg.Server, p.opts.BindHost)
	for _, addr := range []*string{&s.Bind.Health, &s.Bind.Election, &s.Bind.Registration, &s.Bind.Operator, &s.Bind.Agent, &s.Bind.Metrics} {
		if host, port, err := net.SplitHostPort(*addr); err == nil && p.ls.has(port) {
			*addr = net.JoinHostPort(host, "0")
		}
	}
	ls, err := listen(ctx, s, p.opts.AdvertiseHost, p.opts.Provider.FreePorts)
	if err != nil {
		return err
	}
	ls.close()
	return nil
}

// has reports whether one of the sockets has the port.
func (ls *listeners) has(port string) bool {
	for _, l := range []net.Listener{ls.health, ls.election, ls.registration, ls.operator, ls.agent, ls.metrics} {
		if l == nil {
			continue
		}
		if tcp, ok := l.Addr().(*net.TCPAddr); ok && strconv.Itoa(tcp.Port) == port {
			return true
		}
	}
	return false
}
