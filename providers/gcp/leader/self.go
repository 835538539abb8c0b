package leader

import (
	"context"
	"fmt"
	"net/http"

	"cloud.google.com/go/compute/metadata"

	"nstance.dev/providers/gcp/api"
	"nstance.dev/server/driver"
)

// self is the machine that this server runs on.
type self struct{ zone, name string }

// SelfID returns the name of the machine that this server runs on, or its path if
// it is in another zone. The error is of class Transient if the metadata server
// does not answer, as outside of Google's cloud.
func (n *Network) SelfID(ctx context.Context) (string, error) {
	const op = "self-id"
	if err := api.Begin(ctx, op); err != nil {
		return "", err
	}
	me, err := n.self(ctx, op)
	if err != nil {
		return "", err
	}
	if me.zone == n.api.Zone {
		return me.name, nil
	}
	return "zones/" + me.zone + "/instances/" + me.name, nil
}

func (n *Network) self(ctx context.Context, op string) (self, error) {
	name, err := n.metadata.GetWithContext(ctx, "instance/name")
	if err != nil {
		return self{}, driver.Fail(driver.Transient, op, fmt.Errorf("which machine this is: %w", err))
	}
	zone, err := n.metadata.GetWithContext(ctx, "instance/zone") // projects/{number}/zones/{zone}
	if err != nil {
		return self{}, driver.Fail(driver.Transient, op, fmt.Errorf("which zone this is: %w", err))
	}
	return self{zone: api.BaseName(zone), name: name}, nil
}

// metadataServer asks through a client, or as the SDK does.
func metadataServer(client *http.Client) *metadata.Client {
	if client == nil {
		return metadata.NewWithOptions(&metadata.Options{UseDefaultClient: true})
	}
	return metadata.NewClient(client)
}
