package kube

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
)

// NodeImage is the image of the Nodes of clusters of [Kind].
func NodeImage() string { return os.Getenv(envNodeImage) }

// KindNetwork is the network of the engine in which the Nodes of clusters of [Kind] are.
const KindNetwork = "kind"

// errNotKind means that a cluster is not one of kind.
var errNotKind = errors.New("it is no cluster of kind")

// ControlPlane returns the name by which kubeadm knows the API server of a cluster of [Kind], which listens there at
// port 6443, and its address. Outside of the engine nobody knows the name.
func (c *Cluster) ControlPlane(ctx context.Context) (name string, address netip.Addr, err error) {
	if c.node == nil {
		return "", address, errNotKind
	}
	out, err := output(exec.CommandContext(ctx, "docker", "inspect", "--format",
		fmt.Sprintf(`{{(index .NetworkSettings.Networks %q).IPAddress}}`, KindNetwork), c.node.name))
	if err != nil {
		return "", address, err
	}
	address, err = netip.ParseAddr(strings.TrimSpace(string(out)))
	return c.node.name, address, err
}

// OnControlPlane runs a command of a shell on the Node of a cluster of [Kind], and returns what it prints.
func (c *Cluster) OnControlPlane(ctx context.Context, command string) (string, error) {
	if c.node == nil {
		return "", errNotKind
	}
	out, err := c.node.run(ctx, "sh", "-c", command)
	return strings.TrimSpace(string(out)), err
}
