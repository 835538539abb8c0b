package shards

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"

	"nstance.dev/server/layout"
)

type object = map[string]any

func (c *Cluster) bucket() string { return c.box.Path("bucket") }

// prepare makes what servers find at their first start: a storage, and the key that seals
// its secrets.
func (c *Cluster) prepare() {
	c.t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	c.write(c.box.KeyPath(), []byte("hex:"+hex.EncodeToString(key)+"\n"))
}

func (c *Cluster) write(path string, data []byte) {
	c.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// Configure gives a shard the configuration with these groups. A server that runs reads it
// at its next start.
func (c *Cluster) Configure(name string, groups Groups) {
	c.t.Helper()
	configuration := c.configuration(c.shards[name], groups)
	if c.earlier != "" {
		configuration = c.asBefore(configuration)
	}
	text, err := json.MarshalIndent(configuration, "", "  ")
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(filepath.Join(c.bucket(), layout.ConfigKey(name)), text)
}

// configuration is patient with a busy box.
func (c *Cluster) configuration(s *shard, groups Groups) object {
	options := object{"dir": c.box.Path("machines", s.name), "addresses": Addresses}
	if s.name == c.Shards()[0] {
		options["room"] = object{Narrow: 1}
	}
	addresses := object{
		"registration_addr": s.registration, "operator_addr": s.operator, "agent_addr": s.agent,
		"health_addr": s.health, "election_addr": s.ballot,
	}
	bind := maps.Clone(addresses)
	bind["metrics_addr"] = s.health
	static := object{}
	for key, size := range groups {
		static[key] = object{"template": Template, "size": size}
	}
	all := object{Tenant: static}
	for tenant, group := range c.demand {
		if tenant != Tenant {
			all[tenant] = object{}
		}
		all[tenant].(object)[DemandGroup] = group //nolint:forcetypeassert // all are
	}
	return object{
		"server": object{
			"cluster_id": ClusterID, "shard": s.name,
			"provider": object{"kind": "local", "zone": s.name, "options": options},
			"secrets": object{
				"provider":       "object-storage",
				"encryption_key": object{"provider": "file", "source": c.box.KeyPath()},
			},
			"bind": bind, "advertise": addresses, "registration": object{"check_source": "off"},
			"subnet_pools":          object{"local": []string{"local"}, Narrow: []string{Narrow}},
			"health_check_interval": c.reportInterval.String(), "request_timeout": "10s", "drain_timeout": c.drainTimeout.String(),
			"garbage_collection": object{"interval": "2s", "registration_timeout": "5m"},
			"rails":              object{"never_registered_per_hour": 1000, "max_delete_share": c.deleteShare},
			"shard_election":     object{"leader_timeout": "5s"}, "cluster_election": object{"leader_timeout": "5s"},
			"error_exit_jitter": object{"min_delay": "0s", "max_delay": "0s"},
			"admin_tenants":     []string{Tenant}, "demand": c.demandSettings(),
		},
		"templates": c.templates(),
		"tenants":   object{OtherTenant: object{}},
		"groups":    all,
	}
}

// templates differ in whether their machines are hosts.
func (c *Cluster) templates() object {
	of := func(hosts bool) object {
		machine := object{"enabled": hosts}
		if c.hostPolicy != nil {
			machine["policy"] = c.hostPolicy
		}
		return object{
			"kind": Kind, "arch": runtime.GOARCH, "instance_type": "process", "subnet_pool": "local",
			"userdata": object{"content": c.userData}, "tenants": []string{Tenant, OtherTenant}, "machine": machine,
		}
	}
	all := object{Template: of(c.nodeMachines)}
	if c.hosts {
		all[HostTemplate] = of(true)
	}
	return all
}
