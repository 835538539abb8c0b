package config

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/config/schema"
	"nstance.dev/server/driver"
)

// shortest is the least interval that a loop may have: below it a server would
// do little else.
const shortest = 100 * time.Millisecond

func (c *checker) server(path jsonc.Path) {
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
	ttl := path.Key("client_cert_ttl")
	c.hours(ttl.Key("agent"), s.ClientCertTTL.Agent, longestLife)
	c.hours(ttl.Key("operator"), s.ClientCertTTL.Operator, longestLife)
}

func (c *checker) serverNames(path jsonc.Path) {
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
		c.add(shard, quoted(s.Shard)+" is not the shard that was asked for", "the server was started with --shard "+c.opts.Shard)
	}
	if rules := c.cfg.rules.Rules; rules != nil && rules.CheckOwner != nil {
		c.found(path, rules.CheckOwner(driver.Owner{Cluster: s.ClusterID, Shard: s.Shard}))
	}
}

// name checks an identifier.
func (c *checker) name(path jsonc.Path, name string) bool {
	err := identity.ValidateName(name)
	if err != nil {
		c.addKey(path, err.Error(), `use a to z, 0 to 9 and single "-", at most 32 characters, such as "us-west-2a"`)
	}
	return err == nil
}

func (c *checker) provider(path jsonc.Path) {
	p := &c.cfg.Server.Provider
	kind, kinds := path.Key("kind"), schema.Known().Kinds(func(schema.Provider) bool { return true })
	switch {
	case !c.required(kind, p.Kind, either(kinds)):
	case !c.oneOf(kind, p.Kind, kinds...):
	case c.opts.Rules != nil && c.opts.Rules.Kind != "" && p.Kind != c.opts.Rules.Kind:
		c.add(kind, "this server is built for "+c.opts.Rules.Kind, "start nstance-server-"+programOf(p.Kind)+" for this shard")
	}
	c.required(path.Key("zone"), p.Zone, "name the zone; on proxmox and local any label")
	for _, label := range []struct{ name, value string }{{"region", p.Region}, {"zone", p.Zone}} {
		if !cleanText(label.value) {
			c.add(path.Key(label.name), quoted(label.value)+" has characters that do not show", "write it in letters, digits and -")
		}
	}
	c.options(path.Key("options"), p.Options)
	limits := path.Key("limits")
	for _, b := range []struct {
		name   string
		bucket *Bucket
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

func (c *checker) bucket(path jsonc.Path, b Bucket) {
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

func (c *checker) options(path jsonc.Path, options map[string]any) {
	rules := c.cfg.rules.Rules
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

func (c *checker) secrets(path jsonc.Path) {
	s := &c.cfg.Server.Secrets
	c.oneOf(path.Key("provider"), s.Provider,
		SecretsObjectStorage, SecretsAWSParameterStore, SecretsAWSSecretsManager, SecretsGoogleSecretManager)
	c.secretsPrefix(path.Key("prefix"), *s)
	if s.Provider == SecretsGoogleSecretManager {
		c.required(path.Key("project_id"), s.ProjectID, "name the project of the secret manager")
	}
	if s.EncryptionKey != nil {
		c.keySource(path.Key("encryption_key"), *s.EncryptionKey)
		if s.Provider != SecretsObjectStorage {
			c.warn(path.Key("encryption_key"), "not used with "+s.Provider, "it seals secrets in object storage only")
		}
	} else if s.Provider == SecretsObjectStorage {
		c.warn(path, "secrets are stored in the clear", "set encryption_key")
	}
	for i, k := range s.OldEncryptionKeys {
		c.keySource(path.Key("old_encryption_keys").Index(i), k)
	}
}

func (c *checker) keySource(path jsonc.Path, k KeySource) {
	known := []string{KeyFromEnv, KeyFromFile, SecretsAWSParameterStore, SecretsAWSSecretsManager, SecretsGoogleSecretManager}
	if !c.required(path.Key("provider"), k.Provider, "env, file or a secrets manager") || !c.oneOf(path.Key("provider"), k.Provider, known...) {
		return
	}
	c.required(path.Key("source"), k.Source, "say where the key is: a path, or the name of the secret")
	if k.Provider == SecretsGoogleSecretManager {
		c.required(path.Key("project_id"), k.ProjectID, "name the project of the secret manager")
	}
}

func (c *checker) addresses(path jsonc.Path) {
	s := &c.cfg.Server
	var bound []netip.AddrPort
	bind := s.Bind.all()
	if s.Bind.Metrics != "" && s.Bind.Metrics != s.Bind.Health {
		bind = append(bind, namedAddress{"metrics_addr", &s.Bind.Metrics})
	}
	for _, a := range bind {
		p := path.Key("bind").Key(a.name)
		host, port, ok := c.hostPort(p, *a.value)
		if !ok {
			continue
		}
		ip, err := netip.ParseAddr(host)
		if err != nil && host != "" && host != "localhost" {
			c.add(p, quoted(host)+" is not an IP address", "listen on an address of this box, or on 0.0.0.0 or [::]")
			continue
		}
		at := netip.AddrPortFrom(ip, port)
		if port != 0 && slices.ContainsFunc(bound, func(other netip.AddrPort) bool { return overlap(at, other) }) {
			c.add(p, "port "+strconv.Itoa(int(port))+" is taken by another address of this server", "give each its own port")
		}
		bound = append(bound, at)
	}
	for _, a := range s.Advertise.all() {
		if p := path.Key("advertise").Key(a.name); c.doc.Has(p) { // else it was made from bind
			c.hostPort(p, *a.value)
		}
	}
}

// overlap says whether two listeners would want the same port of one address.
func overlap(a, b netip.AddrPort) bool {
	anywhere := func(ip netip.Addr) bool { return !ip.IsValid() || ip.IsUnspecified() }
	return a.Port() == b.Port() && (a.Addr() == b.Addr() || anywhere(a.Addr()) || anywhere(b.Addr()))
}

func (c *checker) hostPort(path jsonc.Path, address string) (host string, port uint16, ok bool) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		c.add(path, quoted(address)+" is not an address", `write host:port, such as "0.0.0.0:8992" or "[::]:8992"`)
		return "", 0, false
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		c.add(path, quoted(text)+" is not a port", "a number from 0 to 65535")
		return "", 0, false
	}
	return host, uint16(n), true
}

func (c *checker) leaderNetwork(path jsonc.Path) {
	n, kind := c.cfg.Server.LeaderNetwork, c.cfg.Server.Provider.Kind
	if n == nil {
		return
	}
	if p, ok := schema.Known().Of(kind); ok && p.LeaderNetwork == nil {
		c.addKey(path, "not supported on "+kind, "leave it out")
		return
	}
	if c.required(path.Key("ip"), n.IP, "the address that moves") {
		c.ip(path.Key("ip"), n.IP)
		if addr, err := netip.ParseAddr(n.IP); err == nil && !addr.IsGlobalUnicast() {
			c.add(path.Key("ip"), quoted(n.IP)+" is no address that others could reach", "an address of the subnet of the servers that no machine has")
		}
	}
	if rules := c.cfg.rules.Rules; rules != nil && rules.CheckLeaderNetwork != nil {
		c.found(path, rules.CheckLeaderNetwork(n.Args))
	}
}

func (c *checker) ip(path jsonc.Path, ip string) {
	if _, err := netip.ParseAddr(ip); err != nil {
		c.add(path, quoted(ip)+" is not an IP address", `such as "10.0.0.100"`)
	}
}

func (c *checker) subnetPools(path jsonc.Path) {
	s := &c.cfg.Server
	pools := path.Key("subnet_pools")
	if len(s.SubnetPools) == 0 {
		c.add(pools, "required", "name at least one pool with at least one subnet")
	}
	owner := map[string]string{}
	sorted(s.SubnetPools, func(pool string, ids []string) {
		c.name(pools.Key(pool), pool)
		if len(ids) == 0 {
			c.add(pools.Key(pool), "a pool needs at least one subnet", "name one, or take the pool out")
		}
		for i, id := range ids {
			c.subnet(pools.Key(pool).Index(i), id)
			if other, taken := owner[id]; taken && id != "" {
				c.add(pools.Key(pool).Index(i), quoted(id)+" is in pool "+quoted(other)+" already", "a subnet may stand in one pool, once")
			}
			owner[id] = pool
		}
	})
	c.unique(path.Key("dynamic_subnet_pools"), s.DynamicSubnetPools)
	for i, pool := range s.DynamicSubnetPools {
		reference(c, path.Key("dynamic_subnet_pools").Index(i), "subnet pool", pool, s.SubnetPools)
	}
}

func (c *checker) subnet(path jsonc.Path, id string) {
	if !c.required(path, id, "the provider's id of a subnet") {
		return
	}
	if _, err := netip.ParsePrefix(id); err == nil {
		c.add(path, quoted(id)+" is an address range", "write the provider's id of the subnet")
		return
	}
	if rules := c.cfg.rules.Rules; rules != nil && rules.CheckSubnet != nil {
		if err := rules.CheckSubnet(id); err != nil {
			c.add(path, err.Error(), "")
		}
	}
}

func (c *checker) intervals(path jsonc.Path) {
	s := &c.cfg.Server
	c.between(path.Key("request_timeout"), s.RequestTimeout, shortest, time.Hour)
	c.between(path.Key("health_check_interval"), s.HealthCheckInterval, shortest, 24*time.Hour)
	c.between(path.Key("image_refresh_interval"), s.ImageRefreshInterval, time.Minute, 0)
	c.between(path.Key("shutdown_timeout"), s.ShutdownTimeout, shortest, time.Hour)
	gc := path.Key("garbage_collection")
	c.between(gc.Key("interval"), s.GarbageCollection.Interval, shortest, 24*time.Hour)
	c.between(gc.Key("registration_timeout"), s.GarbageCollection.RegistrationTimeout, time.Second, 24*time.Hour)
	if ttl := s.Registration.NonceTTL; ttl != 0 {
		c.between(path.Key("registration").Key("nonce_ttl"), ttl, s.GarbageCollection.RegistrationTimeout.Std(), 48*time.Hour)
	}
	e := s.Expiry
	if e.EligibleAge > 0 && e.ForcedAge > 0 && e.EligibleAge >= e.ForcedAge {
		c.add(path.Key("expiry").Key("forced_age"), e.ForcedAge.String()+" is not above eligible_age, "+e.EligibleAge.String(),
			"leave machines time between the two")
	}
	c.jitter(path.Key("error_exit_jitter"), s.ErrorExitJitter)
}

// longestJitter bounds the wait before a process ends: until then nothing is served.
const longestJitter = time.Hour

func (c *checker) jitter(path jsonc.Path, j Jitter) {
	low, high := path.Key("min_delay"), path.Key("max_delay")
	c.between(low, j.MinDelay, 0, longestJitter)
	c.between(high, j.MaxDelay, 0, longestJitter)
	if j.MinDelay <= j.MaxDelay || c.silent(low) || c.silent(high) {
		return
	}
	message := "min_delay " + j.MinDelay.String() + " is above max_delay " + j.MaxDelay.String()
	switch {
	case !c.doc.Has(high):
		c.add(low, message+", its default", "set max_delay too, or lower this")
	case !c.doc.Has(low):
		c.add(high, message+"; min_delay has its default", "set min_delay too, or raise this")
	default:
		c.add(path, message, "swap them")
	}
}

// The limits of a lease, as package lease has them; a test of package serve holds
// the two together.
const (
	minLease    = 5 * time.Second
	minLeaseGCS = 10 * time.Second // an object there takes about one write a second
	maxLease    = time.Hour
)

func (c *checker) election(path jsonc.Path, e Election) {
	least := minLease
	if c.opts.Storage == "gcs" {
		least = minLeaseGCS
	}
	at, lease := path.Key("leader_timeout"), e.LeaderTimeout.Std()
	switch down := lease.Truncate(time.Second); {
	case lease < least || lease > maxLease:
		c.between(at, e.LeaderTimeout, least, maxLease)
		return // the others go by it
	case lease != down:
		c.add(at, e.LeaderTimeout.String()+" is not a number of whole seconds", "write "+down.String()+" or "+(down+time.Second).String())
		return
	}
	c.between(path.Key("frequent_interval"), e.FrequentInterval, shortest, lease/3)
	c.between(path.Key("infrequent_interval"), e.InfrequentInterval, shortest, 0)
	c.between(path.Key("peer_interval"), e.PeerInterval, 10*time.Millisecond, lease/10)
}

func (c *checker) atLeastOne(path jsonc.Path, n int) {
	c.number(path, n, 1, 1_000_000)
}

func (c *checker) hours(path jsonc.Path, h Hours, most int) {
	c.number(path, int(h), 1, most)
}

// The longest lives of certificates, in hours: of the authority's own a hundred years, of
// all others the ten that the authority's has by default.
const (
	longestCA   = 876_000
	longestLife = 87_600
)
