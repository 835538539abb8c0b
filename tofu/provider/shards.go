package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/shardclient"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// patience is how long a call is repeated while no server of a shard answers.
const patience = 30 * time.Second

// settings are the provider's own, as a configuration gives them.
type settings struct {
	shardclient.Flags
	manager string
}

// shards are the connections to the shards of a cluster.
type shards struct {
	byName  map[string]nstancev1.OperatorServiceClient
	conns   []*shardclient.Conn
	usual   string // where a resource names none; empty: it has to
	manager string

	mu       sync.Mutex
	features map[string]map[string]bool // by shard, of those that were asked
}

// open resolves the settings as nstance-admin does and connects with the first call.
func open(s settings, now time.Time) (*shards, error) {
	all := s.Flags
	all.Shard, all.AllShards = "", true
	selection, err := shardclient.Resolve(all, os.Getenv)
	if err != nil {
		return nil, err
	}
	if selection.IdentityDir == "" {
		return nil, fmt.Errorf("%w: name its folder in identity_dir, or a context that has one", shardclient.ErrIdentity)
	}
	id, err := shardclient.LoadIdentity(selection.IdentityDir, selection.ClusterID, selection.Tenant, now)
	if err != nil {
		return nil, err
	}
	c := &shards{byName: map[string]nstancev1.OperatorServiceClient{}, manager: s.manager, features: map[string]map[string]bool{}}
	for _, target := range selection.Targets {
		conn := shardclient.Dial(target, id, shardclient.Options{Patience: patience})
		c.conns = append(c.conns, conn)
		c.byName[target.Shard] = nstancev1.NewOperatorServiceClient(conn)
	}
	if one, err := shardclient.Resolve(s.Flags, os.Getenv); err == nil && len(one.Targets) == 1 {
		c.usual = one.Targets[0].Shard
	} else if s.Shard != "" {
		return nil, err
	}
	return c, nil
}

// of returns the shard that a resource names, or the usual one.
func (c *shards) of(name string) (string, nstancev1.OperatorServiceClient, error) {
	if c == nil {
		return "", nil, errors.New("the provider is not configured: its settings depend on what is not known yet")
	}
	name = cmp.Or(name, c.usual)
	if name == "" {
		return "", nil, errors.New("the cluster has several shards: set shard, here or in the provider's block")
	}
	api, ok := c.byName[name]
	if !ok {
		return "", nil, fmt.Errorf("there are no servers of shard %q in the provider's settings", name)
	}
	return name, api, nil
}

// has reports whether the servers of a shard have an optional ability. Older servers leave out
// what they do not know of a request, so that it has to be asked for first.
func (c *shards) has(ctx context.Context, shard, feature string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.features[shard] == nil {
		info, err := c.byName[shard].GetServerInfo(ctx, &emptypb.Empty{})
		if err != nil {
			return false, err
		}
		known := map[string]bool{}
		for _, f := range info.GetFeatures() {
			known[f] = true
		}
		c.features[shard] = known
	}
	return c.features[shard][feature], nil
}

// errIncomplete says that a server does not know all instances.
var errIncomplete = errors.New("the leader has only just taken over and does not know all instances yet; try again in a moment")

func errNoGroup(key string) error {
	return &valueError{path.Root("key"), fmt.Sprintf("group %q does not exist", key)}
}

// group returns a group of a shard; nil: it does not exist, or is being deleted.
func group(ctx context.Context, api nstancev1.OperatorServiceClient, key string) (*nstancev1.GroupStatus, error) {
	list, err := api.ListGroups(ctx, &emptypb.Empty{})
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	for _, g := range list.GetGroups() {
		if g.GetKey() == key && !g.GetDeleting() {
			return g, nil
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// missing reports whether an instance is gone, or will be whatever is done.
func missing(in *nstancev1.InstanceStatus, err error) bool {
	if status.Code(err) == codes.NotFound {
		return true
	}
	return err == nil && (in.GetCondemned() != nil || in.GetStatus() == "terminated" || in.GetStatus() == "terminating")
}

// splitID splits `SHARD/NAME` or `NAME`.
func splitID(id string) (shard, name string) {
	if before, after, ok := strings.Cut(id, "/"); ok {
		return before, after
	}
	return "", id
}
