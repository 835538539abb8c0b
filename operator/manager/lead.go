package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"nstance.dev/operator/config"
	hostinventory "nstance.dev/operator/controllers/hosts/inventory"
	"nstance.dev/operator/controllers/machine"
	"nstance.dev/operator/credentials/registration"
	"nstance.dev/operator/credentials/webhookcert"
	"nstance.dev/operator/shards"
)

// lead is what the leader does, until ctx ends or something fails that only a new start
// mends.
func (p *process) lead(ctx context.Context) error {
	p.progress.leads.Store(true)
	if err := p.leadFor(ctx); ctx.Err() == nil {
		return err
	}
	return nil // it was not asked to go on
}

func (p *process) leadFor(ctx context.Context) error {
	if err := p.awaitKinds(ctx, p.api, func(k kind) bool { return !k.atNodes || p.settings.WorkloadEndpoint == "" }); err != nil {
		return err
	}
	p.progress.served.Store(true)
	uid, err := p.managerID(ctx)
	if err != nil {
		return err
	}
	p.groupOwnerUID = uid
	workload, err := p.findWorkload()
	if err != nil {
		return err
	}
	w := p.wiring(workload)
	if err := start(ctx, w, feature.atFirst); err != nil {
		return fmt.Errorf("start controllers: %w", err)
	}
	if err := p.identify(ctx); err != nil {
		return err
	}
	p.progress.known.Store(true)
	if err := p.remember(ctx, p.config().Names()); err != nil {
		return err
	}

	n := w.notices
	set := p.connect(ctx, n)
	p.progress.set.Store(set)
	loops, ctx := errgroup.WithContext(ctx)
	loops.Go(func() error { return set.Run(ctx) })
	loops.Go(func() error { return p.keeper(ctx, set, n).Run(ctx) })
	loops.Go(func() error { return p.followConfiguration(ctx, set, n) })
	if p.hooks != nil {
		loops.Go(func() error { return p.trust().Run(ctx) })
	}
	loops.Go(func() error {
		err := control(ctx, w, func(ctx context.Context, api *rest.Config) error {
			return p.awaitKinds(ctx, api, func(k kind) bool { return k.atNodes })
		})
		if err != nil {
			return fmt.Errorf("start controllers: %w", err)
		}
		return nil
	})
	return loops.Wait()
}

func (p *process) registration() registration.Options {
	present := p.config()
	return registration.Options{
		Cluster: present.ClusterID, Tenant: present.Tenant, Store: p.store, Identity: p.identity,
		Names:  registration.Names{Key: p.settings.KeySecret, Certificate: p.settings.CertSecret, Nonce: p.settings.NonceSecret, NonceEntry: p.settings.NonceKey},
		Shards: func() []shards.Target { return registrationTargets(p.config()) },
		Dial:   p.opts.Dial, Log: p.opts.Log,
	}
}

// connect returns the connections to the shards, none of which is open yet.
func (p *process) connect(ctx context.Context, n notices) *shards.Set {
	present := p.config()
	observer := p.metrics.Observer()
	count := observer.ForeignTenant
	observer.ForeignTenant = func(shard string) {
		count(shard)
		n.warn(ctx, "ForeignTenant", "Receive", "shard %s said something about another tenant; it was dropped", shard)
	}
	set := shards.NewSet(shards.Options{
		Cluster: present.ClusterID, Tenant: present.Tenant, Credentials: p.identity, Sink: p.listen(ctx, n), Streams: p.streams(),
		Observer: observer, Manager: p.groupOwnerUID, CoordinatesDrains: true, Dial: p.opts.Dial, Traces: p.opts.Traces,
		PollInterval: p.settings.PollInterval, Grace: p.settings.UnreachableGrace, Log: p.opts.Log,
	})
	set.Apply(operatorTargets(present))
	return set
}

// streams are what is received from the shards.
func (p *process) streams() []shards.Stream {
	all := p.shardState.feed.Streams()
	if p.settings.Hosts {
		all = append(all, shards.WatchMachines(p.shardState.hosts.reports))
	}
	return all
}

// keeper renews the certificate.
func (p *process) keeper(ctx context.Context, set *shards.Set, n notices) *registration.Keeper {
	return &registration.Keeper{
		Options: p.registration(), Renew: registration.RenewVia(set), Redial: set.Redial,
		Refused: func() string {
			for _, s := range set.Shards() {
				if s.Status().Refused {
					return s.Name()
				}
			}
			return ""
		},
		Report: func(news registration.RenewalResult) {
			p.metrics.Certificate(p.identity.Validity())
			until := news.Until.UTC().Format(time.RFC3339)
			if news.Renewed {
				n.normal(ctx, "CertificateRenewed", "Renew", "the operator's certificate is good until %s", until)
				return
			}
			n.warn(ctx, "CertificateExpiring", "Renew", "the operator's certificate ends at %s and is not renewed: %v", until, news.Err)
		},
	}
}

// trust tells the API server of the webhooks' authority.
func (p *process) trust() *webhookcert.Trust {
	return &webhookcert.Trust{
		Store: p.store, Secret: p.settings.WebhookSecret, Client: p.live, Configuration: p.settings.WebhookConfiguration, Log: p.opts.Log,
	}
}

// followConfiguration applies what changes in the file and in the two ConfigMaps.
func (p *process) followConfiguration(ctx context.Context, set *shards.Set, n notices) error {
	listed := make(chan map[string]string)
	err := watchConfigMaps(ctx, p.mgr.GetCache(), func(name string, data map[string]string) {
		switch name {
		case p.settings.ShardsConfigMap:
			select {
			case listed <- data:
			case <-ctx.Done():
			}
		case p.settings.CAConfigMap:
			if err := p.identity.Trust([]byte(data[caEntry])); err != nil {
				n.warn(ctx, "ConfigRejected", "Reload", "ConfigMap %s: %v", name, err)
			}
		}
	})
	if err != nil {
		return err
	}
	return config.Follow(ctx, config.FollowOptions{
		Path: p.settings.Config, Shards: p.liveConfig.listed, ConfigMap: listed, Config: p.config(), Interval: reloadInterval,
		Report: func(o config.Outcome) { p.reconfigure(ctx, o, set, n) },
	})
}

// expectInstances tells the inventory which instances the machines on new shards have. Until it has, the
// shards are not to be connected, so it tries for as long as it takes; false: ctx has ended.
func (p *process) expectInstances(ctx context.Context, added []string) bool {
	for len(added) > 0 {
		err := p.remember(ctx, added)
		if err == nil {
			return true
		}
		p.opts.Log.WarnContext(ctx, "new shards are not connected yet", "shards", added, "error", err, "retry_in", rememberInterval.String())
		if pause(ctx, rememberInterval) != nil {
			return false
		}
	}
	return true
}

// remember has the inventory expect the instances that objects of the cluster stand for.
func (p *process) remember(ctx context.Context, shards []string) error {
	known := p.shardState.feed.Inventory()
	if err := machine.Remember(ctx, p.live, known, p.settings.Namespace, shards); err != nil || !p.settings.Hosts {
		return err
	}
	return hostinventory.Remember(ctx, p.live, known, p.config().Tenant, shards)
}

// rememberInterval is how long new shards wait when the API server does not answer.
const rememberInterval = 5 * time.Second

// reconfigure puts a configuration into force, or says why it was refused.
func (p *process) reconfigure(ctx context.Context, o config.Outcome, set *shards.Set, n notices) {
	p.metrics.Reloaded(o.Err == nil)
	if o.Err != nil {
		p.opts.Log.WarnContext(ctx, "configuration refused", "error", o.Err)
		n.warn(ctx, "ConfigRejected", "Reload", "the configuration of before stays in force: %v", o.Err)
		return
	}
	p.opts.Log.InfoContext(ctx, "configuration changed", "added", o.Change.Added, "removed", o.Change.Removed, "moved", o.Change.Readdressed)
	p.liveConfig.set(o.Config)
	p.shardState.feed.Inventory().Configure(o.Config.Names())
	if len(o.Change.Added) > 0 { // what does not wait for the API server happens at once
		set.Apply(slices.DeleteFunc(operatorTargets(o.Config), func(t shards.Target) bool { return slices.Contains(o.Change.Added, t.Shard) }))
	}
	if !p.expectInstances(ctx, o.Change.Added) {
		return
	}
	set.Apply(operatorTargets(o.Config))
	n.normal(ctx, "ConfigReloaded", "Reload", "shards added: %v, removed: %v, moved: %v", o.Change.Added, o.Change.Removed, o.Change.Readdressed)
}
