package clusterops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

// State is what is stored of a cluster, for people and scripts to look at. It has
// no secret in it.
type State struct {
	Authority []AuthorityState `json:"authority"`
	Locks     []LockState      `json:"locks"`
	Configs   []ConfigState    `json:"configs"`
	Groups    []GroupState     `json:"groups"` // what the API has set; the configurations' own groups stand there
	Instances []InstanceCount  `json:"instances"`
	Operators []OperatorState  `json:"operators"`
	Secrets   []SecretState    `json:"secrets"`
	Problems  []Problem        `json:"problems"`
}

// AuthorityState is one certificate of the authority.
type AuthorityState struct {
	Subject  string    `json:"subject"`
	NotAfter time.Time `json:"not_after"`
}

// LockState is one lock: the cluster's, or that of a shard.
type LockState struct {
	Lock     string    `json:"lock"`
	Leader   string    `json:"leader"`
	Term     uint64    `json:"term"`
	Released bool      `json:"released"`
	Renewed  time.Time `json:"renewed"` // by the leader's clock
}

// ConfigState is the configuration of one shard.
type ConfigState struct {
	Shard    string    `json:"shard"`
	Cluster  string    `json:"cluster"` // empty: it is invalid
	Size     int       `json:"size"`
	ETag     string    `json:"etag"`
	Modified time.Time `json:"modified"`
}

// GroupState is what the API has set for one group.
type GroupState struct {
	Shard    string `json:"shard"`
	Tenant   string `json:"tenant"`
	Group    string `json:"group"`
	Template string `json:"template"` // empty: that of the configuration
	Size     *int   `json:"size"`     // nil: that of the configuration
}

// InstanceCount counts the instances of one tenant that are in one status.
type InstanceCount struct {
	Shard  string `json:"shard"`
	Tenant string `json:"tenant"`
	Status string `json:"status"`
	Count  int    `json:"count"`
}

// OperatorState is one registered operator.
type OperatorState struct {
	ID         string    `json:"id"`
	Tenant     string    `json:"tenant"`
	Role       string    `json:"role"` // operator or viewer
	Registered time.Time `json:"registered"`
	NotAfter   time.Time `json:"not_after"` // of its certificate
}

// SecretState is one secret. Its value is never shown.
type SecretState struct {
	Name     string         `json:"name"`
	Value    secrets.Secret `json:"value"` // always empty; it prints as a mask
	Readable bool           `json:"readable"`
}

// Problem is an object that could not be read or understood.
type Problem struct {
	Key   string `json:"key"`
	Error string `json:"error"`
}

// readers bounds how many records are read at once.
const readers = 32

// Inspect reads the state. What can't be understood is among the problems; what
// can't be listed at all is an error. Of instances every record is read, so a
// cluster of many takes a while.
func (c *Cluster) Inspect(ctx context.Context) (*State, error) {
	in := &inspection{cluster: c, counts: map[InstanceCount]int{}}
	for _, part := range []struct {
		prefix string
		read   func(objectstore.Object) error
	}{
		{pki.CACertKey, in.authority},
		{"leader/", in.lock},
		{configPrefix, in.config},
		{"groups/", in.groups},
		{layout.OperatorPrefix, in.operator},
		{"instance/", in.instance},
	} {
		if err := in.each(ctx, part.prefix, part.read); err != nil {
			return nil, err
		}
	}
	if err := in.secrets(ctx); err != nil {
		return nil, err
	}
	return in.sorted(), nil
}

// inspection collects the state; records come in any order.
type inspection struct {
	cluster *Cluster

	mu     sync.Mutex
	state  State
	counts map[InstanceCount]int
}

// each reads every document below prefix, several at a time. Those that no reader
// knows, such as a store's self-test, are not documents.
func (in *inspection) each(ctx context.Context, prefix string, read func(objectstore.Object) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for info, err := range objectstore.ListAll(ctx, in.cluster.objects, prefix) {
		if err != nil {
			return errors.Join(fmt.Errorf("list %s: %w", prefix, err), g.Wait())
		}
		if !strings.HasSuffix(info.Key, ".json") && !strings.HasSuffix(info.Key, ".jsonc") && info.Key != pki.CACertKey {
			continue
		}
		g.Go(func() error { return in.one(ctx, info.Key, read) })
	}
	return g.Wait()
}

func (in *inspection) one(ctx context.Context, key string, read func(objectstore.Object) error) error {
	object, err := in.cluster.objects.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil // gone since
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if err == nil {
		err = read(object)
	}
	if err != nil {
		in.state.Problems = append(in.state.Problems, Problem{key, err.Error()})
	}
	return ctx.Err()
}

func (in *inspection) authority(o objectstore.Object) error {
	certs, err := pki.ParseCertificates(o.Data)
	for _, cert := range certs {
		in.state.Authority = append(in.state.Authority, AuthorityState{cert.Subject.String(), cert.NotAfter.UTC()})
	}
	return err
}

func (in *inspection) lock(o objectstore.Object) error {
	doc, err := lease.Decode(o.Data)
	if err != nil {
		return err
	}
	in.state.Locks = append(in.state.Locks, LockState{
		Lock: between(o.Key, "leader/", ".json"), Leader: doc.LeaderID, Term: doc.Term, Released: doc.Released, Renewed: doc.LastUpdated,
	})
	return nil
}

func (in *inspection) config(o objectstore.Object) error {
	entry := ConfigState{Shard: between(o.Key, configPrefix, ".jsonc"), Size: len(o.Data), ETag: o.ETag, Modified: o.Modified.UTC()}
	cfg, err := config.Load(o.Key, o.Data, config.LoadOptions{})
	if err == nil {
		entry.Cluster = cfg.Server.ClusterID
	}
	in.state.Configs = append(in.state.Configs, entry)
	return err
}

func (in *inspection) groups(o objectstore.Object) error {
	shard, err := layout.ParseGroupsKey(o.Key)
	if err != nil {
		return nil //nolint:nilerr // a copy beside the file: what counts stands in the file
	}
	file, err := groupfile.Decode(o.Key, o.Data)
	if err != nil {
		return err
	}
	for tenant, groups := range file.Groups {
		for name, g := range groups {
			in.state.Groups = append(in.state.Groups, GroupState{
				Shard: shard, Tenant: tenant, Group: name, Template: g.Template, Size: g.Size,
			})
		}
	}
	return nil
}

func (in *inspection) operator(o objectstore.Object) error {
	record, err := layout.DecodeOperatorRecord(o.Key, o.Data)
	if err != nil {
		return err
	}
	in.state.Operators = append(in.state.Operators, OperatorState{
		record.ID.String(), record.Tenant, string(cmp.Or(record.Role, identity.RoleOperator)), record.RegisteredAt.Time, record.Certificate.NotAfter.Time,
	})
	return nil
}

func (in *inspection) instance(o objectstore.Object) error {
	record, err := layout.DecodeInstanceRecord(o.Key, o.Data)
	if err != nil {
		return err
	}
	in.counts[InstanceCount{Shard: record.Shard, Tenant: record.Tenant, Status: string(record.Status)}]++
	return nil
}

func (in *inspection) secrets(ctx context.Context) error {
	names, err := in.cluster.secrets.List(ctx, "")
	if err != nil {
		return err
	}
	for _, name := range names {
		_, err := in.cluster.secrets.Get(ctx, name)
		in.state.Secrets = append(in.state.Secrets, SecretState{Name: name, Readable: err == nil})
		if err != nil {
			in.state.Problems = append(in.state.Problems, Problem{"secret " + name, err.Error()})
		}
	}
	return nil
}

// sorted is the state with every list in order, and none of them null.
func (in *inspection) sorted() *State {
	s := &in.state
	for group, n := range in.counts {
		group.Count = n
		s.Instances = append(s.Instances, group)
	}
	order(&s.Authority, nil)
	order(&s.Locks, func(l LockState) string { return l.Lock })
	order(&s.Configs, func(c ConfigState) string { return c.Shard })
	order(&s.Groups, func(g GroupState) string { return g.Shard + "/" + g.Tenant + "/" + g.Group })
	order(&s.Instances, func(i InstanceCount) string { return i.Shard + "/" + i.Tenant + "/" + i.Status })
	order(&s.Operators, func(o OperatorState) string { return o.Tenant + "/" + o.ID })
	order(&s.Secrets, nil)
	order(&s.Problems, func(p Problem) string { return p.Key })
	return s
}

// order sorts a list by a key, or leaves it as it came.
func order[T any](list *[]T, key func(T) string) {
	if *list == nil {
		*list = []T{}
	}
	if key != nil {
		slices.SortFunc(*list, func(a, b T) int { return strings.Compare(key(a), key(b)) })
	}
}

func between(key, prefix, suffix string) string {
	return strings.TrimSuffix(strings.TrimPrefix(key, prefix), suffix)
}
