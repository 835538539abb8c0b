package shards

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// identity is the folder of the test's own operator of a tenant.
func (c *Cluster) identity(tenant string) string { return c.box.Path("operator-" + tenant) }

// enrol makes the test's own operators.
func (c *Cluster) enrol() error {
	for _, tenant := range []string{Tenant, OtherTenant} {
		r := c.box.Admin("cluster", "register-operator", "--tenant", tenant, "--output-dir", c.identity(tenant),
			"--storage-provider", "file", "--storage-bucket", c.bucket(), "--key-provider", "file", "--key-source", c.box.KeyPath())
		if r.Code != 0 {
			return fmt.Errorf("register an operator: exit code %d: %s", r.Code, r.Err)
		}
	}
	return nil
}

// client returns a client for the operators' API of a shard.
func (c *Cluster) client(shard, tenant string) (nstancev1.OperatorServiceClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := tenant + "/" + shard
	if c.conns[key] == nil {
		settings, err := box.ClientTLS(c.identity(tenant))
		if err != nil {
			return nil, err
		}
		settings.ServerName = identity.ServerName(shard, ClusterID)
		if c.conns[key], err = box.Dial(c.shards[shard].operator, settings); err != nil {
			return nil, err
		}
	}
	return nstancev1.NewOperatorServiceClient(c.conns[key]), nil
}

// Dial connects to a shard as the test's own operator of a tenant. The caller closes the connection. It is safe
// for concurrent use.
func (c *Cluster) Dial(shard, tenant string) (*grpc.ClientConn, error) {
	settings, err := box.ClientTLS(c.identity(tenant))
	if err != nil {
		return nil, err
	}
	settings.ServerName = identity.ServerName(shard, ClusterID)
	return box.Dial(c.shards[shard].operator, settings)
}

// Admin starts a command of nstance-admin that goes on, as the test's own operator of a tenant, for all shards.
func (c *Cluster) Admin(tenant, command string, flags ...string) *box.Process {
	c.t.Helper()
	var servers []string
	for _, name := range c.Shards() {
		servers = append(servers, name+"="+c.shards[name].operator)
	}
	args := []string{command, "--servers", strings.Join(servers, ","), "--identity-dir", c.identity(tenant)}
	return c.box.Start("nstance-admin", append(args, flags...)...)
}

func (c *Cluster) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close() // it was for reading
	}
}

// Groups returns the groups that a shard has of the default tenant. It is safe for concurrent use.
func (c *Cluster) Groups(ctx context.Context, shard string) ([]*nstancev1.GroupStatus, error) {
	client, err := c.client(shard, Tenant)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, box.CallTimeout)
	defer cancel()
	r, err := client.ListGroups(ctx, &emptypb.Empty{})
	return r.GetGroups(), err
}

// Instances returns the instances that a shard has of all tenants, and whether these are all.
// It is safe for concurrent use.
func (c *Cluster) Instances(ctx context.Context, shard string) (all []*nstancev1.InstanceStatus, complete bool, err error) {
	complete = true
	for _, tenant := range c.tenants() {
		of, whole, err := c.InstancesOf(ctx, shard, tenant)
		if err != nil {
			return nil, false, err
		}
		all, complete = append(all, of...), complete && whole
	}
	return all, complete, nil
}

// InstancesOf returns the instances that a shard has of a tenant, and whether these are all.
// It is safe for concurrent use.
func (c *Cluster) InstancesOf(ctx context.Context, shard, tenant string) (all []*nstancev1.InstanceStatus, complete bool, err error) {
	client, err := c.client(shard, tenant)
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, box.CallTimeout)
	defer cancel()
	r, err := client.ListInstances(ctx, &nstancev1.ListInstancesRequest{PageSize: 1000})
	return r.GetInstances(), r.GetComplete(), err
}

// tenants are those that may have instances: of the other one nobody makes any before it has
// an operator.
func (c *Cluster) tenants() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.other {
		return []string{Tenant, OtherTenant}
	}
	return []string{Tenant}
}

// UpsertGroup makes or changes a group of [Template] and the default tenant on a shard, as a
// person does.
func (c *Cluster) UpsertGroup(shard, key string, size int32) {
	c.t.Helper()
	c.call(shard, "upsert group "+key, func(ctx context.Context, client nstancev1.OperatorServiceClient) error {
		_, err := client.UpsertGroup(ctx, &nstancev1.UpsertGroupRequest{
			Key: key, Config: &nstancev1.GroupConfig{Template: proto.String(Template), Size: &size},
		})
		return err
	})
}

// DeleteGroup deletes a group of the default tenant from a shard.
func (c *Cluster) DeleteGroup(shard, key string) {
	c.t.Helper()
	c.call(shard, "delete group "+key, func(ctx context.Context, client nstancev1.OperatorServiceClient) error {
		_, err := client.DeleteGroup(ctx, &nstancev1.DeleteGroupRequest{Key: key})
		return err
	})
}

// DeleteInstance has a shard replace an instance of the default tenant: once its work has
// left it, or at once.
func (c *Cluster) DeleteInstance(shard, id string, atOnce bool) {
	c.t.Helper()
	c.call(shard, "delete instance "+id, func(ctx context.Context, client nstancev1.OperatorServiceClient) error {
		_, err := client.DeleteInstance(ctx, &nstancev1.DeleteInstanceRequest{InstanceId: id, SkipDrain: atOnce})
		return err
	})
}

// call calls the server of a shard, which must take it.
func (c *Cluster) call(shard, what string, do func(context.Context, nstancev1.OperatorServiceClient) error) {
	c.t.Helper()
	client, err := c.client(shard, Tenant)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), box.CallTimeout)
	defer cancel()
	if err := do(ctx, client); err != nil {
		c.t.Fatalf("%s on %s: %v", what, shard, err)
	}
}

// Await waits until the server of a shard answers operators.
func (c *Cluster) Await(shard string) {
	c.t.Helper()
	c.box.Await("the server of "+shard+" answers", func() error {
		_, err := c.Groups(context.Background(), shard)
		return err
	})
}
