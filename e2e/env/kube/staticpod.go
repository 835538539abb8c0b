package kube

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"time"
)

// node is the container that is the Node of a cluster of kind.
type node struct{ name string }

// run runs a command in it.
func (n *node) run(ctx context.Context, command ...string) ([]byte, error) {
	return output(exec.CommandContext(ctx, "docker", append([]string{"exec", n.name}, command...)...))
}

// staticPod is a component that the kubelet of a Node keeps running for as long as there is
// a manifest of it.
type staticPod struct {
	node      *node
	component Component
}

// Of both, $1 is the component. The kernel keeps the first 15 letters of a program's name.
const (
	// processes prints the ids of its processes.
	processes = `name=$(printf %.15s "$1"); for dir in /proc/[0-9]*; do [ "$(cat $dir/comm 2>/dev/null)" != "$name" ] || echo "${dir#/proc/}"; done`

	// lastLines prints the last $2 lines that its containers have printed.
	lastLines = `cat /var/log/pods/kube-system_"$1"-*/*/*.log | tail -n "$2"`
)

// shell runs a script in the Node, with the component as its first argument.
func (p *staticPod) shell(ctx context.Context, script string, args ...string) (string, error) {
	out, err := p.node.run(ctx, append([]string{"sh", "-c", script, "sh", string(p.component)}, args...)...)
	return string(out), err
}

// start has the kubelet run it, and waits for nothing.
func (p *staticPod) start() (runner, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	_, err := p.shell(ctx, `[ -e /etc/kubernetes/manifests/"$1".yaml ] || mv /etc/kubernetes/"$1".yaml /etc/kubernetes/manifests/`)
	return p, err
}

// healthy returns nil while there is a process of it.
func (p *staticPod) healthy(ctx context.Context) error {
	found, err := p.shell(ctx, processes)
	if err == nil && found == "" {
		err = fmt.Errorf("%s does not run yet", p.component)
	}
	return err
}

// Ended reports whether the kubelet is to run it no more.
func (p *staticPod) Ended() bool {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	_, err := p.shell(ctx, `[ -e /etc/kubernetes/manifests/"$1".yaml ]`)
	return err != nil
}

// Stop has the kubelet end it.
func (p *staticPod) Stop(patience time.Duration) error { return p.end(patience, ":") }

// Kill ends it as a crash does, and keeps the kubelet from starting it again.
func (p *staticPod) Kill() { _ = p.end(Patience, `kill -9 $(`+processes+`)`) } // what still runs then the test sees

func (p *staticPod) end(patience time.Duration, how string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := p.shell(ctx, `mv /etc/kubernetes/manifests/"$1".yaml /etc/kubernetes/; `+how); err != nil {
		return err
	}
	return await(ctx, func(ctx context.Context) error {
		found, err := p.shell(ctx, processes)
		if err == nil && found != "" {
			err = fmt.Errorf("%s still runs", p.component)
		}
		return err
	})
}

// tail returns the last lines of its output.
func (p *staticPod) tail(lines int) string {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	text, err := p.shell(ctx, lastLines, fmt.Sprint(lines))
	if err != nil {
		return err.Error()
	}
	return text
}

// ContainerStarts counts how often containers of the Pods of a namespace were started, of those
// Pods that are there. It asks the Node, and needs no API server.
func (c *Cluster) ContainerStarts(ctx context.Context, namespace string) (int, error) {
	if c.node == nil {
		return 0, fmt.Errorf("%s: %w", namespace, ErrUnknownComponent)
	}
	out, err := c.node.run(ctx, "sh", "-c", `ls /var/log/pods/"$1"_*/*/*.log`, "sh", namespace)
	return bytes.Count(out, []byte("\n")), err
}
