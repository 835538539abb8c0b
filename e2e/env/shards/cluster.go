package shards

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/protos/identity"
	"nstance.dev/providers/local"
)

// ClusterID is that of every cluster.
const ClusterID = "dev"

// Tenant is the one that the configuration's groups belong to.
const Tenant = identity.DefaultTenant

// OtherTenant is a second one, with no groups of the configuration.
const OtherTenant = "other"

// Template is the one template of every shard. The ids of its instances begin with Kind.
const (
	Template = "base"
	Kind     = "knd"
)

// HostTemplate is that of machines as [NodeMachines] makes them, beside those of Template, where [Hosts] is given.
const HostTemplate = "host"

// Addresses is the network of the addresses that machines are said to have.
const Addresses = "10.77.0.0/16"

// Narrow is a subnet pool beside that of the template. The first shard has room for one
// machine in it.
const Narrow = "narrow"

// Groups are static groups of the default tenant, by key, with their sizes.
type Groups map[string]int

// Option is something that [New] does otherwise.
type Option func(*Cluster)

// DrainTimeout is how long machines have to hand over their work. Without it that is long
// enough that it is not the time that ends a drain.
func DrainTimeout(d time.Duration) Option {
	return func(c *Cluster) { c.drainTimeout = d }
}

// Unbound lets a shard delete all machines of a deleted group at once. Without it a shard goes by
// the bound that servers have by default.
func Unbound(c *Cluster) { c.deleteShare = "100%" }

// NodeMachines makes the machines hosts, on which nodes run in machines of their own.
func NodeMachines(c *Cluster) { c.nodeMachines = true }

// Hosts gives all shards [HostTemplate] beside the other template.
func Hosts(c *Cluster) { c.hosts = true }

// HostPolicy is the policy of the machines as hosts, beside what it is by default.
func HostPolicy(policy map[string]any) Option {
	return func(c *Cluster) { c.hostPolicy = policy }
}

// ReportInterval is how often agents report. Without it that is often, and a machine that is silent for a
// minute has a replacement.
func ReportInterval(d time.Duration) Option {
	return func(c *Cluster) { c.reportInterval = d }
}

// Cluster is a cluster of shards. Its methods fail the test where they cannot do what they
// promise, and belong to the test's goroutine unless they say otherwise.
type Cluster struct {
	t      testing.TB
	box    *box.Box
	shards map[string]*shard

	drainTimeout   time.Duration
	reportInterval time.Duration
	deleteShare    string            // of a shard's machines, that may be deleted within a minute
	demand         map[string]object // group of mode demand, by tenant
	userData       string            // template of the machines
	nodeMachines   bool
	hosts          bool   // there is HostTemplate
	hostPolicy     object // of the machines, where they are hosts
	demandServer   object // what servers are told of demand besides prices
	earlier        string // where the programs are, if they are those of an earlier release

	mu    sync.Mutex
	conns map[string]*grpc.ClientConn // by tenant and shard
	other bool                        // there may be an operator of OtherTenant
}

// shard is a shard with the addresses of its server.
type shard struct {
	name                                          string
	registration, operator, agent, health, ballot string
	relay                                         *relay // to operator
	process                                       *box.Process
}

// New starts a cluster with the given shards and the groups that their configurations
// have, and returns when each has a leader that answers operators.
func New(t testing.TB, groups map[string]Groups, options ...Option) *Cluster {
	t.Helper()
	c := &Cluster{
		t: t, box: box.New(t), shards: map[string]*shard{}, conns: map[string]*grpc.ClientConn{},
		drainTimeout: 90 * time.Second, reportInterval: 20 * time.Second, deleteShare: "25%", userData: local.DefaultUserData,
	}
	for _, option := range options {
		option(c)
	}
	if c.earlier != "" {
		c.box.From(c.absolute(c.earlier))
	}
	c.prepare()
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		c.shards[name] = newShard(t, name)
		c.Configure(name, groups[name])
		c.launch(name)
	}
	t.Cleanup(c.hangUp)
	// A cluster has keys once a first server has led it; the first identity is made then.
	c.box.Await("the cluster has keys, and an operator", c.enrol)
	for name := range c.shards {
		c.Await(name)
	}
	return c
}

func newShard(t testing.TB, name string) *shard {
	t.Helper()
	s := &shard{name: name}
	for _, address := range []*string{&s.registration, &s.operator, &s.agent, &s.health, &s.ballot} {
		port, err := kube.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		*address = fmt.Sprintf("%s:%d", kube.Address(), port)
	}
	var err error
	if s.relay, err = newRelay(s.operator); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.relay.close)
	return s
}

// Shards returns the names of the shards in order.
func (c *Cluster) Shards() []string { return slices.Sorted(maps.Keys(c.shards)) }

// OperatorAddr returns the address at which a shard serves operators. Those who call there
// do not reach it while it is cut off.
func (c *Cluster) OperatorAddr(shard string) string { return c.shards[shard].relay.address }

// CutOff has a shard out of reach of operators until [Cluster.Mend]: they get no answer, and
// no refusal either. Its server and machines notice nothing, and this Cluster still reaches
// them. It is safe for concurrent use, as is Mend.
func (c *Cluster) CutOff(shard string) { c.shards[shard].relay.cut() }

// Mend ends what CutOff began. A shard that is not cut off it leaves as it is.
func (c *Cluster) Mend(shard string) { c.shards[shard].relay.mend() }

// RegistrationAddr returns the address at which operators register.
func (c *Cluster) RegistrationAddr(shard string) string { return c.shards[shard].registration }

// CA returns the authority's certificate, PEM.
func (c *Cluster) CA() []byte {
	c.t.Helper()
	pem, err := os.ReadFile(filepath.Join(c.identity(Tenant), "ca.crt"))
	if err != nil {
		c.t.Fatal(err)
	}
	return pem
}

// Nonce returns a token with which one operator of a tenant registers itself.
func (c *Cluster) Nonce(tenant string) string {
	c.t.Helper()
	c.mu.Lock()
	c.other = c.other || tenant == OtherTenant
	c.mu.Unlock()
	return c.box.OperatorNonce(tenant)
}

// Stop has the server of a shard end, and waits for its end. Its machines go on.
func (c *Cluster) Stop(shard string) {
	c.t.Helper()
	if code := c.shards[shard].process.Stop(c.t); code != 0 {
		c.t.Errorf("the server of %s ended with code %d", shard, code)
	}
}

// Kill ends the server of a shard as a crash does.
func (c *Cluster) Kill(shard string) { c.shards[shard].process.Kill() }

// PID returns the process id of the server of a shard.
func (c *Cluster) PID(shard string) int { return c.shards[shard].process.PID }

// Runs reports whether the server of a shard runs.
func (c *Cluster) Runs(shard string) bool { return !c.shards[shard].process.Ended() }

// launch starts the server of a shard and waits for nothing.
func (c *Cluster) launch(name string) {
	c.t.Helper()
	c.shards[name].process = c.box.Start("nstance-server-local", "serve", "--shard", name,
		"--storage", "file", "--bucket", c.bucket(), "--cachedir", c.box.CacheDir(name), "--id", name)
}

// Start starts the server of a shard again, which was stopped or killed, and returns when
// it answers operators.
func (c *Cluster) Start(shard string) {
	c.t.Helper()
	c.launch(shard)
	c.Await(shard)
}

// StartAnew is [Cluster.Start] for a server that has lost its cache.
func (c *Cluster) StartAnew(shard string) {
	c.t.Helper()
	if err := os.RemoveAll(c.box.CacheDir(shard)); err != nil {
		c.t.Fatal(err)
	}
	c.Start(shard)
}

// Log returns what the server of a shard has printed since its last start.
func (c *Cluster) Log(shard string) string { return c.shards[shard].process.Output() }
