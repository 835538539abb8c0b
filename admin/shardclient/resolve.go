package shardclient

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"nstance.dev/admin/contexts"
	"nstance.dev/protos/identity"
)

// ErrSelection is matched by every error about flags, variables and context
// that do not say which servers are meant.
var ErrSelection = errors.New("servers not selected")

// SelectionError is about a context that cannot be read or does not exist. It
// matches [ErrSelection].
type SelectionError struct{ Err error }

// Error is the text of the cause alone.
func (e *SelectionError) Error() string { return e.Err.Error() }

// Unwrap returns ErrSelection and the cause.
func (e *SelectionError) Unwrap() []error { return []error{ErrSelection, e.Err} }

// Flags are the settings from the command line. Each empty one is taken from its
// environment variable, and then from the context.
type Flags struct {
	Config      string // path of the configuration file with contexts
	Context     string // name in Config, or the path of a context file
	Servers     string // shard1=host:port,shard2=host:port
	IdentityDir string
	Shard       string
	AllShards   bool // excludes Shard
}

// Target is one shard and where its servers may be found.
type Target struct {
	Shard     string
	Addresses []string
	// LeaderFile holds the leader's addresses, and is asked first; may be empty.
	LeaderFile string
}

// Selection is what a command works on.
type Selection struct {
	Targets     []Target // sorted by shard, at least one
	IdentityDir string   // empty: nobody has named one
	ClusterID   string   // that the identity must have; empty: any
	Tenant      string   // that the identity must have; empty: any
}

// Resolve applies the order of precedence: a flag beats its environment
// variable, which beats the context. Without a shard, that of the context
// counts, or the only one there is.
func Resolve(flags Flags, getenv func(string) string) (Selection, error) {
	file, err := contextOf(flags, getenv)
	if err != nil {
		return Selection{}, err
	}
	servers, err := servers(cmp.Or(flags.Servers, getenv(identity.EnvAdminServers)), file)
	if err != nil {
		return Selection{}, err
	}
	shards, err := shards(flags, getenv, file, servers)
	if err != nil {
		return Selection{}, err
	}
	s := Selection{
		IdentityDir: cmp.Or(flags.IdentityDir, getenv(identity.EnvAdminIdentityDir), file.IdentityDir),
		ClusterID:   file.ClusterID,
		Tenant:      file.Tenant,
	}
	for _, shard := range shards {
		t := Target{Shard: shard, Addresses: servers[shard]}
		if shard == leaderFileShard(file) {
			t.LeaderFile = file.LeaderFile
		}
		s.Targets = append(s.Targets, t)
	}
	return s, nil
}

// contextOf returns the context that is named, or else the current one. The current
// one is left alone where servers and identity are named one by one.
func contextOf(flags Flags, getenv func(string) string) (contexts.Context, error) {
	if cmp.Or(flags.Context, getenv(identity.EnvAdminContext)) == "" && flags.Config == "" &&
		cmp.Or(flags.Servers, getenv(identity.EnvAdminServers)) != "" && cmp.Or(flags.IdentityDir, getenv(identity.EnvAdminIdentityDir)) != "" {
		return contexts.Context{}, nil
	}
	selected, err := contexts.Select(flags.Config, flags.Context, getenv)
	if err != nil {
		return contexts.Context{}, &SelectionError{err}
	}
	return selected.Context, nil
}

// servers returns the addresses per shard. Those that were named one by one
// replace all of the context.
func servers(flag string, file contexts.Context) (map[string][]string, error) {
	if flag != "" {
		return ParseServers(flag)
	}
	all := map[string][]string{}
	for shard, list := range file.Servers {
		if err := identity.ValidateName(shard); err != nil {
			return nil, fmt.Errorf("%w servers of the context: shard: %w", ErrSelection, err)
		}
		for address := range strings.SplitSeq(list, ",") {
			if err := checkAddress(address); err != nil {
				return nil, fmt.Errorf("%w servers of the context: shard %s: %w", ErrSelection, shard, err)
			}
			all[shard] = append(all[shard], address)
		}
	}
	if shard := leaderFileShard(file); file.LeaderFile != "" && shard != "" && all[shard] == nil {
		all[shard] = []string{}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w name a context with --context or %s, make one current with 'nstance-admin config use-context', or name servers with --servers or %s",
			ErrSelection, identity.EnvAdminContext, identity.EnvAdminServers)
	}
	return all, nil
}

// ParseServers reads shard1=host:port,shard2=host:port. A further address of the
// same shard follows with the shard's name again or without any.
func ParseServers(list string) (map[string][]string, error) {
	all := map[string][]string{}
	shard := ""
	for entry := range strings.SplitSeq(list, ",") {
		address := entry
		if name, rest, named := strings.Cut(entry, "="); named {
			shard, address = name, rest
		}
		if shard == "" {
			return nil, fmt.Errorf("%w servers: %q must be of the form shard=host:port", ErrSelection, entry)
		}
		if err := identity.ValidateName(shard); err != nil {
			return nil, fmt.Errorf("%w servers: shard: %w", ErrSelection, err)
		}
		if err := checkAddress(address); err != nil {
			return nil, fmt.Errorf("%w servers: shard %s: %w", ErrSelection, shard, err)
		}
		all[shard] = append(all[shard], address)
	}
	return all, nil
}

func checkAddress(address string) error {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return fmt.Errorf("address %q must be of the form host:port", address)
	}
	return nil
}

// leaderFileShard returns the shard that a context's leader file belongs to.
func leaderFileShard(file contexts.Context) string {
	if file.Shard == "" && len(file.Servers) == 1 {
		for shard := range file.Servers {
			return shard
		}
	}
	return file.Shard
}

func shards(flags Flags, getenv func(string) string, file contexts.Context, servers map[string][]string) ([]string, error) {
	known := slices.Sorted(maps.Keys(servers))
	if flags.AllShards {
		if flags.Shard != "" {
			return nil, fmt.Errorf("%w --shard and --all-shards exclude each other", ErrSelection)
		}
		return known, nil
	}
	shard := cmp.Or(flags.Shard, getenv(identity.EnvAdminShard))
	if _, here := servers[file.Shard]; shard == "" && here {
		shard = file.Shard
	}
	switch _, here := servers[shard]; {
	case here:
		return []string{shard}, nil
	case shard != "":
		return nil, fmt.Errorf("%w there are no servers of shard %q, only of %s", ErrSelection, shard, strings.Join(known, ", "))
	case len(known) == 1:
		return known, nil
	}
	return nil, fmt.Errorf("%w there are the shards %s: choose with --shard or %s, or --all-shards",
		ErrSelection, strings.Join(known, ", "), identity.EnvAdminShard)
}
