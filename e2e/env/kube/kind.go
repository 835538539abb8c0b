package kube

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// kindPatience is how long a cluster of kind may take to come up.
const kindPatience = 10 * time.Minute

// kinds has room for the clusters of kind that there are at the same time in a process: one
// that many tests share, and one of a test that wants to be alone. More keep a box busy with
// nothing else.
var kinds = make(chan struct{}, 2)

// startKind has kind make a cluster of one Node, and puts into it what config asks for.
func (c *Cluster) startKind(ctx context.Context, config Config) error {
	select {
	case kinds <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.ends = append(c.ends, func() { <-kinds })
	ctx, cancel := context.WithTimeout(ctx, kindPatience)
	defer cancel()
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails
	name := "nstance-" + hex.EncodeToString(random)
	file, err := c.kindFiles(config)
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(c.dir, "kind.kubeconfig")
	c.ends = append(c.ends, func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		_, _ = c.kind(ctx, "delete", "cluster", "--name", name, "--kubeconfig", kubeconfig) // the engine's end is its end too
	})
	_, err = c.kind(ctx, "create", "cluster", "--name", name, "--image", os.Getenv(envNodeImage),
		"--config", file, "--kubeconfig", kubeconfig, "--wait", kindPatience.String())
	if err != nil {
		return err
	}
	if c.admin, err = adminOf(kubeconfig); err != nil {
		return err
	}
	if err := c.meet(c.admin.Host, c.admin.CAData); err != nil {
		return err
	}
	c.node = &node{name: name + "-control-plane"}
	if err := c.adopt(ctx); err != nil {
		return err
	}
	if err := c.loadImages(ctx, name); err != nil {
		return err
	}
	if err := c.furnish(ctx, config); err != nil {
		return err
	}
	return c.stopOthers(config)
}

// stopOthers ends the components that config does not ask for: a cluster of kind has all.
func (c *Cluster) stopOthers(config Config) error {
	asked := config.components()
	for component := range c.parts {
		if slices.Contains(asked, component) {
			continue
		}
		if err := c.Stop(component); err != nil {
			return err
		}
		delete(c.parts, component)
	}
	return nil
}

// adminOf returns the client of the current context of a kubeconfig file.
func adminOf(kubeconfig string) (*rest.Config, error) {
	admin, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	admin.QPS, admin.UserAgent = -1, "admin"
	return admin, nil
}

// adopt takes from the Node what only a control plane has: its authority, and its components.
func (c *Cluster) adopt(ctx context.Context) error {
	var files [2][]byte
	for i, name := range []string{"ca.crt", "ca.key"} {
		var err error
		if files[i], err = c.node.run(ctx, "cat", "/etc/kubernetes/pki/"+name); err != nil {
			return err
		}
	}
	var err error
	if c.authority, err = authorityOf(files[0], files[1]); err != nil {
		return fmt.Errorf("the cluster's authority: %w", err)
	}
	for _, component := range []Component{Etcd, APIServer, ControllerManager, Scheduler} {
		pod := &staticPod{node: c.node, component: component}
		healthy := pod.healthy
		if component == APIServer {
			healthy = c.answers(c.server.Host + "/readyz")
		}
		c.parts[component] = &part{component: component, launch: pod.start, tail: pod.tail, healthy: healthy, runs: pod}
	}
	return nil
}

// loadImages puts the images of the tests into the Node of a cluster.
func (c *Cluster) loadImages(ctx context.Context, cluster string) error {
	archives, err := filepath.Glob(filepath.Join(os.Getenv(envImages), "*", "*.tar"))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if _, err := c.kind(ctx, "load", "image-archive", archive, "--name", cluster); err != nil {
			return err
		}
	}
	return nil
}

// kind runs kind, and returns what it prints.
func (c *Cluster) kind(ctx context.Context, args ...string) ([]byte, error) {
	path, err := tool("kind")
	if err != nil {
		return nil, err
	}
	return output(exec.CommandContext(ctx, path, args...))
}

// output runs a command, whose error has what it said of errors.
func output(cmd *exec.Cmd) ([]byte, error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &said)
	}
	return out, nil
}

// Where a Node has what its API server writes down, and why.
const (
	nodePolicy = "/etc/kubernetes/audit"
	nodeAudit  = "/var/log/kubernetes-audit"
)

type object = map[string]any

// kindFiles writes what kind reads, and the API server at its start, and returns the path of
// kind's configuration.
func (c *Cluster) kindFiles(config Config) (string, error) {
	policy, audit := filepath.Join(c.dir, "policy"), filepath.Join(c.logs, "audit")
	for _, dir := range []string{policy, audit} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(policy, "policy.yaml"), []byte(auditPolicy), 0o600); err != nil {
		return "", err
	}
	c.auditLog = filepath.Join(audit, "audit.log")
	patches, err := kubeadmPatches(config)
	if err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(object{
		"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4",
		"networking":           object{"apiServerAddress": "127.0.0.1"},
		"kubeadmConfigPatches": patches,
		"nodes": []object{{"role": "control-plane", "extraMounts": []object{
			{"hostPath": policy, "containerPath": nodePolicy, "readOnly": true},
			{"hostPath": audit, "containerPath": nodeAudit},
		}}},
	}, "", "  ") // JSON is YAML too
	if err != nil {
		return "", err
	}
	file := filepath.Join(c.dir, "kind.yaml")
	return file, os.WriteFile(file, text, 0o600)
}

// kubeadmPatches are what kind is to change in what it gives to kubeadm. Some of it serves
// hosts with control groups of version 1, or whose root may not raise limits, and changes
// nothing elsewhere.
func kubeadmPatches(config Config) ([]string, error) {
	volume := func(name, path string, readOnly bool) object {
		return object{"name": name, "hostPath": path, "mountPath": path, "readOnly": readOnly, "pathType": "Directory"}
	}
	manager := config.Flags[ControllerManager]
	if config.NodeMonitorGrace > 0 {
		manager = append([]string{"--node-monitor-grace-period=" + config.NodeMonitorGrace.String()}, manager...)
	}
	var patches []string
	for _, patch := range []object{
		{
			"kind": "ClusterConfiguration",
			"etcd": object{"local": object{"extraArgs": extraArgs(append([]string{"--unsafe-no-fsync=true"}, config.Flags[Etcd]...))}},
			"apiServer": object{
				"extraArgs": extraArgs(append([]string{
					"--audit-policy-file=" + nodePolicy + "/policy.yaml",
					"--audit-log-path=" + nodeAudit + "/audit.log",
					"--audit-log-maxsize=10240", // MB: one file, however long the test
				}, config.Flags[APIServer]...)),
				"extraVolumes": []object{volume("audit-policy", nodePolicy, true), volume("audit-log", nodeAudit, false)},
			},
			"controllerManager": object{"extraArgs": extraArgs(manager)},
			"scheduler":         object{"extraArgs": extraArgs(config.Flags[Scheduler])},
		},
		{"kind": "KubeletConfiguration", "failCgroupV1": false, "oomScoreAdj": 0},
		{"kind": "KubeProxyConfiguration", "oomScoreAdj": 0, "conntrack": object{"maxPerCore": 0, "min": 0}},
	} {
		text, err := json.Marshal(patch)
		if err != nil {
			return nil, err
		}
		patches = append(patches, string(text))
	}
	return patches, nil
}

// extraArgs are flags, --name=value each, as kubeadm's configuration has them.
func extraArgs(flags []string) []object {
	args := []object{}
	for _, flag := range flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		args = append(args, object{"name": name, "value": value})
	}
	return args
}
