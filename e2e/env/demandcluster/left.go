package demandcluster

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kinds of demand mode.
var (
	CapacityRequests    = demandKind("capacityrequests")
	UpcomingNodes       = demandKind("upcomingnodes")
	AvailableCapacities = demandKind("availablecapacities")
	nodeKind            = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

func demandKind(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "demand.nstance.dev", Version: "v1alpha1", Resource: resource}
}

// Left returns an error that names what is still there of the Nodes that were bought, of the
// machines, and of the objects that spoke of them. It is safe for concurrent use.
func (c *Cluster) Left(ctx context.Context) error {
	var left []string
	for _, kind := range []schema.GroupVersionResource{CapacityRequests, UpcomingNodes, nodeKind} {
		list, err := c.Custom.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, object := range list.Items {
			if kind != nodeKind || strings.HasPrefix(object.GetLabels()["nstance.dev/instance-id"], "knd") {
				left = append(left, kind.Resource+" "+object.GetName())
			}
		}
	}
	machines, err := c.Machines(ctx)
	if err != nil {
		return err
	}
	if left = append(left, machines...); len(left) > 0 {
		return fmt.Errorf("%d are left: %s", len(left), strings.Join(left[:min(len(left), 8)], ", "))
	}
	return nil
}

// Machines returns the instances of the tenant that shards have, each with its shard and state.
// It is safe for concurrent use.
func (c *Cluster) Machines(ctx context.Context) ([]string, error) {
	var all []string
	for _, shard := range c.Shards.Shards() {
		instances, complete, err := c.Shards.InstancesOf(ctx, shard, c.Tenant)
		if err == nil && !complete {
			err = fmt.Errorf("shard %s does not know all its instances yet", shard)
		}
		if err != nil {
			return nil, err
		}
		for _, in := range instances {
			all = append(all, fmt.Sprintf("machine %s of %s, %s", in.GetInstanceId(), shard, in.GetStatus()))
		}
	}
	return all, nil
}
