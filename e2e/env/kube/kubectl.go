package kube

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Kubectl runs kubectl as the administrator and returns what it prints.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	path, err := tool("kubectl")
	if err != nil {
		return "", err
	}
	kubeconfig, err := c.KubeconfigFile(c.Admin())
	if err != nil {
		return "", err
	}
	own := []string{"--kubeconfig", kubeconfig, "--cache-dir", filepath.Join(c.dir, "kubectl")}
	out, err := exec.CommandContext(ctx, path, append(own, args...)...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(out), fmt.Errorf("kubectl %v: %w\n%s", args, err, exit.Stderr)
	}
	return string(out), err
}
