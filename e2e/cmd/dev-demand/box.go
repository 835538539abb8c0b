package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nstance.dev/e2e/env/inplace"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/kube/nodes"
	"nstance.dev/e2e/repo/chart"
)

// box is what runs here. A part that was not started is nil.
type box struct {
	dir *directory
	bin string
	out io.Writer

	server, operator *kube.Process
	cluster          *kube.Cluster
	follow           func() error // ends the Nodes' agents
}

// run starts everything, says what can be done with it, and waits until ctx ends or a part does.
func (b *box) run(ctx context.Context) error {
	fmt.Fprintln(b.out, "dev-demand: starting a control plane, a shard and the operator")
	err := b.start(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // interrupted
	}
	if err != nil {
		return err
	}
	b.hello()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for name, p := range map[string]*kube.Process{"the shard's server": b.server, "the operator": b.operator} {
			if p.Ended() {
				return fmt.Errorf("%s has ended; its output ends with:\n%s", name, p.Log(15))
			}
		}
	}
}

func (b *box) start(ctx context.Context) error {
	shard, err := b.startShard(ctx)
	if err != nil {
		return err
	}
	if b.cluster, err = kube.New(ctx, b.dir.controls(), filepath.Join(b.dir.path, "logs"), kube.Config{Scheduler: true, ControllerManager: true}); err != nil {
		return err
	}
	config, err := kube.Kubeconfig(b.cluster.Admin())
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.dir.kubeconfig(), config, 0o600); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(b.cluster.Admin())
	if err != nil {
		return err
	}
	if err := b.startNodes(ctx, client); err != nil {
		return err
	}
	if err := b.startOperator(ctx, shard); err != nil {
		return err
	}
	return b.wait(ctx, "Pods can be made", b.operator, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// How often is looked which machines have joined, and Nodes say that they are there.
const (
	pause     = 100 * time.Millisecond
	heartbeat = 5 * time.Second
)

// startNodes has a Node for each machine that has joined.
func (b *box) startNodes(ctx context.Context, client kubernetes.Interface) error {
	log, err := os.OpenFile(b.dir.log("nodes"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	joined := nodes.Joined(filepath.Join(b.dir.machines(), "*"), func(m *nodes.Machine) {
		m.Heartbeat, m.Capacity = heartbeat, nodes.Capacity(m.Labels[corev1.LabelInstanceTypeStable])
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- nodes.Follow(ctx, client, slog.New(slog.NewTextHandler(log, nil)), pause, joined) }()
	b.follow = func() error {
		cancel()
		return errors.Join(<-ended, log.Close())
	}
	return nil
}

// blob makes a machine a Node.
var blob = nodes.JoinScript(`nstance://{{ index .NodeLabels "nstance.dev/shard" }}/{{ .MachineID }}`, "nstance.dev/dev-demand=true")

// startOperator installs the operator, starts it, and returns when it is ready.
func (b *box) startOperator(ctx context.Context, s *shard) error {
	var addresses [2]string // of the probes and of the metrics
	for i := range addresses {
		port, err := kube.FreePort()
		if err != nil {
			return err
		}
		addresses[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	const namespace = "nstance-system"
	in, err := inplace.Install(ctx, inplace.Options{
		Cluster: b.cluster, Release: chart.Release{Name: "nstance-operator", Namespace: namespace},
		Values: s.values(b.cluster.APIServer(), blob, addresses), Dir: b.dir.controls(),
	})
	if err != nil {
		return fmt.Errorf("install the operator: %w", err)
	}
	if b.operator, err = kube.Run(filepath.Join(b.bin, "nstance-operator"), in.Args, in.Env, b.dir.log("nstance-operator")); err != nil {
		return fmt.Errorf("start the operator: %w", err)
	}
	return b.wait(ctx, "the operator is ready", b.operator, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addresses[0]+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", req.URL, resp.Status)
		}
		return nil
	})
}

// wait waits until something of a process is the case.
func (b *box) wait(ctx context.Context, what string, of *kube.Process, is func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, kube.Patience, fmt.Errorf("not within %v", kube.Patience))
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		err := is(ctx)
		if err == nil {
			return nil
		}
		if of.Ended() {
			return fmt.Errorf("%s: the process has ended, its output ends with:\n%s", what, of.Log(15))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// hello says what there is, and what can be done with it.
func (b *box) hello() {
	fmt.Fprintf(b.out, `dev-demand: ready: a cluster without Nodes, and a shard that makes Nodes for it
  API server  %s
  logs        %s

In another terminal, in this directory:
  export KUBECONFIG=%[3]s/kubeconfig NSTANCE_ADMIN_CONTEXT=%[3]s/shard/admin.json
  export PATH=$PWD/bin:$PWD/bin/tools:$PATH
  kubectl apply -f docs/demand/examples/hungry.yaml
  kubectl get pods,nodes,un,ac,creq
  kubectl delete pod hungry
  nstance-admin instance list

Ctrl-C ends it and removes %[3]s.
`, b.cluster.APIServer(), b.dir.logs(), b.dir.name)
}

// stopTimeout is how long a program may take to end, with its machines.
const stopTimeout = time.Minute

// end ends all that runs, in the order in which one needs the other.
func (b *box) end() error {
	fmt.Fprintln(b.out, "dev-demand: ending")
	var errs []error
	for _, p := range []*kube.Process{b.operator, b.server} {
		if p != nil && !p.Ended() {
			errs = append(errs, p.Stop(stopTimeout))
		}
	}
	if b.follow != nil {
		errs = append(errs, b.follow())
	}
	if b.cluster != nil {
		b.cluster.Close()
	}
	return errors.Join(append(errs, b.dir.halt())...)
}
