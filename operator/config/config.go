package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrInvalid is matched by every error about the content of a configuration.
var ErrInvalid = errors.New("invalid configuration")

// DefaultRegistrationPort is the port of a server's registration service, where the
// configuration gives none.
const DefaultRegistrationPort = "8992"

// Config is a valid configuration.
type Config struct {
	ClusterID string
	Tenant    string
	Shards    []Shard // at least one, each name once, in the order of the configuration
	Import    Import
}

// Shard is one shard and where its servers are.
type Shard struct {
	Name string
	// Operator are the addresses, host:port, of the operator service: one that moves
	// with the leader, or those of all servers. At least one.
	Operator []string
	// Registration are those of the registration service. At least one.
	Registration []string
	// Zone and Region are where its machines are, in the words of the labels of Nodes; empty: not
	// said. Demand mode decides by them where pending Pods go.
	Zone, Region string
}

// Import says what becomes of groups that the shards know and Kubernetes does not.
type Import struct {
	Enabled bool // default true
	Pools   PoolShape
	Exclude []string // keys of groups that are left alone
}

// PoolShape says how many pools an imported group becomes.
type PoolShape string

// The shapes of imported pools.
const (
	Aggregate PoolShape = "aggregate" // one pool over all shards; the default
	PerShard  PoolShape = "per-shard" // one pool for each shard, as autoscaling by zone needs
)

// Find returns the shard of a name.
func (c Config) Find(name string) (Shard, bool) {
	if i := slices.IndexFunc(c.Shards, func(s Shard) bool { return s.Name == name }); i >= 0 {
		return c.Shards[i], true
	}
	return Shard{}, false
}

// Names returns the names of the shards in order.
func (c Config) Names() []string {
	names := make([]string, len(c.Shards))
	for i, s := range c.Shards {
		names[i] = s.Name
	}
	return names
}

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Place string // the source and the key, such as "config.yaml line 4: shards.a.operator_addr"
	Text  string // what is wrong and what to do
}

// String writes the problem on one line.
func (p Problem) String() string { return p.Place + ": " + p.Text }

// InvalidError lists everything that is wrong with a configuration. It matches
// [ErrInvalid].
type InvalidError struct {
	Problems []Problem // at least one, in the order of the source
}

// Error writes all problems on one line.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return fmt.Sprintf("%v: %s", ErrInvalid, strings.Join(lines, "; "))
}

// Unwrap makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Unwrap() error { return ErrInvalid }
