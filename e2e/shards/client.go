package shards

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// identity is the folder of the test's own operator.
func (c *Cluster) identity() string { return c.box.Path("operator") }

// enrol makes the test's own operator.
func (c *Cluster) enrol() error {
	r := c.box.Admin("cluster", "register-operator", "--tenant", Tenant, "--output-dir", c.identity(),
		"--storage-provider", "file", "--storage-bucket", c.bucket(), "--key-provider", "file", "--key-source", c.box.KeyPath())
	if r.Code != 0 {
		return fmt.Errorf("register an operator: exit code %d: %s", r.Code, r.Err)
	}
	return nil
}

// client returns a client for the operators' API of a shard.
func (c *Cluster) client(shard string) (nstancev1.OperatorServiceClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conns[shard] == nil {
		settings, err := box.ClientTLS(c.identity())
		if err != nil {
			return nil, err
		}
		settings.ServerName = identity.ServerName(shard, ClusterID)
		if c.conns[shard], err = box.Dial(c.shards[shard].operator, settings); err != nil {
			return nil, err
		}
	}
	return nstancev1.NewOperatorServiceClient(c.conns[shard]), nil
}

func (c *Cluster) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close() // it was for reading
	}
}

// Groups returns the groups that a shard has. It is safe for concurrent use.
func (c *Cluster) Groups(ctx context.Context, shard string) ([]*nstancev1.GroupStatus, error) {
	client, err := c.client(shard)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, box.CallTimeout)
	defer cancel()
	r, err := client.ListGroups(ctx, &emptypb.Empty{})
	return r.GetGroups(), err
}

// Instances returns the instances that a shard has, and whether these are all. It is safe
// for concurrent use.
func (c *Cluster) Instances(ctx context.Context, shard string) (all []*nstancev1.InstanceStatus, complete bool, err error) {
	client, err := c.client(shard)
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, box.CallTimeout)
	defer cancel()
	r, err := client.ListInstances(ctx, &nstancev1.ListInstancesRequest{PageSize: 1000})
	return r.GetInstances(), r.GetComplete(), err
}

// Await waits until the server of a shard answers operators.
func (c *Cluster) Await(shard string) {
	c.t.Helper()
	c.box.Await("the server of "+shard+" answers", func() error {
		_, err := c.Groups(context.Background(), shard)
		return err
	})
}
