package checks

import (
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/config/schema"
	"nstance.dev/server/driver"
)

func (c serverCheck) server(path jsonc.Path) {
	s := &c.cfg.Server
	if !c.doc.Has(path) {
		c.add(path, "required", "say at least cluster_id, shard, provider and subnet_pools")
		return
	}
	c.serverNames(path)
	c.provider(path.Key("provider"))
	c.secrets(path.Key("secrets"))
	c.addresses(path)
	c.leaderNetwork(path.Key("leader_network"))
	c.subnetPools(path)
	c.intervals(path)
	c.election(path.Key("shard_election"), s.ShardElection)
	c.election(path.Key("cluster_election"), s.ClusterElection)
	c.adminTenants(path.Key("admin_tenants"))
	rails := path.Key("rails")
	c.atLeastOne(rails.Key("never_registered_per_hour"), s.Rails.NeverRegisteredPerHour)
	c.windows(rails.Key("maintenance_windows"), s.Rails.MaintenanceWindows)
	c.demand(path.Key("demand"))
	ttl := path.Key("client_cert_ttl")
	c.hours(ttl.Key("agent"), s.ClientCertTTL.Agent, longestLife)
	c.hours(ttl.Key("operator"), s.ClientCertTTL.Operator, longestLife)
}

func (c serverCheck) serverNames(path jsonc.Path) {
	s := &c.cfg.Server
	if c.required(path.Key("cluster_id"), s.ClusterID, "name the cluster") {
		c.name(path.Key("cluster_id"), s.ClusterID)
	}
	shard := path.Key("shard")
	switch {
	case !c.required(shard, s.Shard, "name the shard"):
	case !c.name(shard, s.Shard):
	case s.Shard == "cluster":
		c.add(shard, `"cluster" is reserved`, "the cluster's own lock has this name; choose another")
	case c.opts.Shard != "" && s.Shard != c.opts.Shard:
		c.add(shard, jsonc.Quoted(s.Shard)+" is not the shard that was asked for", "the server was started with --shard "+c.opts.Shard)
	}
	if rules := c.cfg.Rules.Provider(); rules != nil && rules.CheckOwner != nil {
		c.found(path, rules.CheckOwner(driver.Owner{Cluster: s.ClusterID, Shard: s.Shard}))
	}
}

func (c serverCheck) provider(path jsonc.Path) {
	p := &c.cfg.Server.Provider
	kind, kinds := path.Key("kind"), schema.Known().Kinds(func(schema.Provider) bool { return true })
	switch {
	case !c.required(kind, p.Kind, either(kinds)):
	case !c.oneOf(kind, p.Kind, kinds...):
	case c.opts.Program != nil && c.opts.Program.Kind != "" && p.Kind != c.opts.Program.Kind:
		c.add(kind, "this server is built for "+c.opts.Program.Kind, "start nstance-server-"+programOf(p.Kind)+" for this shard")
	}
	c.required(path.Key("zone"), p.Zone, "name the zone; on proxmox and local any label")
	for _, label := range []struct{ name, value string }{{"region", p.Region}, {"zone", p.Zone}} {
		if !document.CleanText(label.value) {
			c.add(path.Key(label.name), jsonc.Quoted(label.value)+" has characters that do not show", "write it in letters, digits and -")
		}
	}
	c.options(path.Key("options"), p.Options)
	limits := path.Key("limits")
	for _, b := range []struct {
		name   string
		bucket *document.Bucket
	}{{"calls", p.Limits.Calls}, {"instances", p.Limits.Instances}, {"deletes", p.Limits.Deletes}, {"reads", p.Limits.Reads}} {
		if b.bucket == nil {
			continue
		}
		c.bucket(limits.Key(b.name), *b.bucket)
	}
}

// Limits of the rate of a bucket, a second: below the lower one a server would wait a
// quarter of an hour and more for one call.
const (
	minRate = 0.001
	maxRate = 1_000_000
)

func (c serverCheck) bucket(path jsonc.Path, b document.Bucket) {
	const remedy = "so many a second, from 0.001 to 1000000; leave the bucket out for the driver's default"
	rate := path.Key("rate")
	switch {
	case !c.doc.Has(rate):
		c.add(rate, "required", remedy)
	case b.Rate <= 0:
		c.add(rate, "not above 0", remedy)
	case b.Rate < minRate:
		c.add(rate, "too small: one call would take more than a quarter of an hour", remedy)
	case b.Rate > maxRate:
		c.add(rate, "too large", remedy)
	}
	if burst := path.Key("burst"); !c.doc.Has(burst) {
		c.add(burst, "required", "so many may be saved up, at least 1")
	} else {
		c.number(burst, b.Burst, 1, 1_000_000)
	}
}

// programOf is how the server for a provider is called.
func programOf(kind string) string {
	p, _ := schema.Known().Of(kind)
	return p.Program
}

func (c serverCheck) options(path jsonc.Path, options map[string]any) {
	rules := c.cfg.Rules.Provider()
	if rules == nil {
		return
	}
	for _, name := range rules.RequiredOptions {
		if _, ok := options[name]; !ok {
			c.add(path.Key(name), "required", "the provider does not work without it")
		}
	}
	if rules.CheckOption == nil {
		return
	}
	sorted(options, func(name string, value any) {
		if err := rules.CheckOption(name, value); err != nil {
			c.addKey(path.Key(name), err.Error(), "")
		}
	})
}

// The longest lives of certificates, in hours: of the authority's own a hundred years, of
// all others the ten that the authority's has by default.
const (
	longestCA   = 876_000
	longestLife = 87_600
)
