package document

import (
	"net"
	"time"

	"nstance.dev/server/config/schema"
)

// defaults is the configuration that a file is laid over.
func defaults() *Config {
	election := Election{
		Enabled: true, LeaderTimeout: Duration(15 * time.Second),
		InfrequentInterval: Duration(30 * time.Second),
	}
	return &Config{Server: Server{
		Secrets: Secrets{Provider: SecretsObjectStorage},
		Bind: Bind{
			Health: "0.0.0.0:8990", Election: "0.0.0.0:8991", Registration: "0.0.0.0:8992",
			Operator: "0.0.0.0:8993", Agent: "0.0.0.0:8994", Metrics: "127.0.0.1:8995",
		},
		RequestTimeout:       Duration(30 * time.Second),
		HealthCheckInterval:  Duration(time.Minute),
		DrainTimeout:         Duration(5 * time.Minute),
		ImageRefreshInterval: Duration(6 * time.Hour),
		ShutdownTimeout:      Duration(10 * time.Second),
		GarbageCollection: GarbageCollection{
			Interval: Duration(2 * time.Minute), RegistrationTimeout: Duration(5 * time.Minute),
			DeletedRecordRetention: Duration(30 * time.Minute),
		},
		ShardElection: election, ClusterElection: election,
		Registration:    Registration{CheckSource: SourceCheckWarn},
		Rails:           Rails{MaxUnavailable: 10, MaxDeleteShare: 25, NeverRegisteredPerHour: 5},
		ErrorExitJitter: Jitter{MinDelay: Duration(10 * time.Second), MaxDelay: Duration(40 * time.Second)},
		ClientCertTTL:   ClientCertTTL{Agent: 720, Operator: 8760},
	}}
}

// complete fills in the defaults that depend on other fields, and those of what
// stands in maps.
func (c *Config) complete() {
	s := &c.Server
	s.Provider.Kind = canonicalProvider(s.Provider.Kind)
	if s.AdminTenants == nil && !c.SeveralTenants() {
		s.AdminTenants = []string{DefaultTenant}
	}
	s.Secrets.complete(s.ClusterID)
	s.Advertise.complete(s.Bind)
	for _, e := range []*Election{&s.ShardElection, &s.ClusterElection} {
		if e.FrequentInterval == 0 {
			e.FrequentInterval = e.LeaderTimeout / 3
		}
		if e.PeerInterval == 0 {
			e.PeerInterval = min(e.LeaderTimeout/25, Duration(500*time.Millisecond))
		}
	}
	completeWindows(s.Rails.MaintenanceWindows)
	for key, lb := range c.LoadBalancers {
		lb.Provider = canonicalProvider(lb.Provider)
		c.LoadBalancers[key] = lb
	}
	for key, image := range c.Images {
		image.complete()
		c.Images[key] = image
	}
	for key, cert := range c.Certificates {
		cert.complete(key)
		c.Certificates[key] = cert
	}
	c.Defaults.Userdata.complete()
	for _, t := range c.Templates {
		t.Userdata.complete()
		for name, f := range t.Files {
			f.Key.complete()
			t.Files[name] = f
		}
	}
	for _, groups := range c.Groups {
		for _, g := range groups {
			if g.Rails != nil {
				completeWindows(g.Rails.MaintenanceWindows)
			}
		}
	}
}

func canonicalProvider(word string) string { return schema.Known().Canonical(word) }

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// SecretsPrefix returns what stands before the names of a cluster's secrets in a
// kind of store unless the configuration says otherwise; "" for an unknown kind.
func SecretsPrefix(provider, cluster string) string {
	switch provider {
	case SecretsObjectStorage:
		return "secret/"
	case SecretsAWSParameterStore:
		return "/" + cluster + "/"
	case SecretsAWSSecretsManager:
		return cluster + "/"
	case SecretsGoogleSecretManager:
		return cluster + "-"
	}
	return ""
}

func (s *Secrets) complete(cluster string) {
	setDefault(&s.Provider, SecretsObjectStorage)
	setDefault(&s.Prefix, SecretsPrefix(s.Provider, cluster))
	if s.EncryptionKey != nil {
		s.EncryptionKey.complete()
	}
	for i := range s.OldEncryptionKeys {
		s.OldEncryptionKeys[i].complete()
	}
}

func (k *KeySource) complete() {
	if k.Provider == KeyFromEnv {
		setDefault(&k.Source, DefaultKeyVariable)
	}
}

// complete gives each address that has none the port of the bound one.
func (a *Addresses) complete(bind Bind) {
	bound := bind.All()
	for i, field := range a.All() {
		if _, port, err := net.SplitHostPort(*bound[i].Value); err == nil {
			setDefault(field.Value, ":"+port)
		}
	}
}

// NamedAddress is one address of several.
type NamedAddress struct {
	Name  string  // in JSON
	Value *string // host:port; may be changed
}

// All are the addresses with their names in JSON, in a fixed order.
func (a *Addresses) All() []NamedAddress {
	return []NamedAddress{
		{"health_addr", &a.Health}, {"election_addr", &a.Election}, {"registration_addr", &a.Registration},
		{"operator_addr", &a.Operator}, {"agent_addr", &a.Agent},
	}
}

// All are the addresses that are advertised too, in the order of [Addresses.All].
func (b *Bind) All() []NamedAddress {
	return []NamedAddress{
		{"health_addr", &b.Health}, {"election_addr", &b.Election}, {"registration_addr", &b.Registration},
		{"operator_addr", &b.Operator}, {"agent_addr", &b.Agent},
	}
}

func (i *Image) complete() {
	i.Provider = canonicalProvider(i.Provider)
	setDefault(&i.Sort, "creation-date")
	setDefault(&i.Order, "desc")
}

func (c *Certificate) complete(key string) {
	if c.TTL == 0 {
		c.TTL = 8760
		if key == CertificateCA {
			c.TTL = 87600
		}
	}
}

func (u *Userdata) complete() {
	if u != nil {
		setDefault(&u.Source, SourceInline)
		setDefault(&u.Encoding, EncodingPlain)
	}
}

func (k *FileKey) complete() {
	if k == nil {
		return
	}
	setDefault(&k.Source, k.From)
	setDefault(&k.Source, "agent")
}

func completeWindows(windows []MaintenanceWindow) {
	for i := range windows {
		setDefault(&windows[i].Timezone, "UTC")
	}
}
