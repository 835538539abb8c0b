package demandcluster

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/env/kube"
)

// electionLease is the Lease of the operator that leads.
const electionLease = "nstance-operator-leader-election"

// StartOperator starts the operator, with flags after those of the chart. None runs.
func (c *Cluster) StartOperator(flags ...string) {
	c.t.Helper()
	var err error
	c.process, err = kube.Run(c.program.path, append(append([]string{}, c.program.args...), flags...), c.program.env, c.program.log)
	if err != nil {
		c.t.Fatal(err)
	}
}

// KillOperator ends the operator as a crash does. Its Lease is over at once, as if it were for
// long that none runs.
func (c *Cluster) KillOperator() {
	c.t.Helper()
	c.process.Kill()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), 10*time.Second)
	defer cancel()
	_, err := c.Client.CoordinationV1().Leases(Namespace).Patch(ctx, electionLease, types.MergePatchType,
		[]byte(`{"spec":{"holderIdentity":""}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		c.t.Logf("end the Lease of the operator: %v", err)
	}
}

// StopOperator asks the operator to end, and waits until it has.
func (c *Cluster) StopOperator() {
	c.t.Helper()
	if err := c.process.Stop(time.Minute); err != nil {
		c.t.Error(err)
	}
}

// Operator is the process of the operator.
func (c *Cluster) Operator() *kube.Process { return c.process }

// MetricsAddr is the host:port of the operator's metrics.
func (c *Cluster) MetricsAddr() string { return c.program.metrics }

// replacePath returns an argument whose path below a directory is below another one.
func replacePath(arg, was, is string) string {
	name, path, _ := strings.Cut(arg, "=")
	if rest, below := strings.CutPrefix(path, strings.TrimSuffix(was, "/")+"/"); below {
		return name + "=" + is + "/" + rest
	}
	return arg
}

// flagOf is the value of a flag in arguments; empty: it is not there.
func flagOf(args []string, name string) string {
	for _, arg := range args {
		if value, is := strings.CutPrefix(arg, name+"="); is {
			return value
		}
	}
	return ""
}

// OperatorUser is the operator, as the API server calls it.
func (c *Cluster) OperatorUser() string {
	return "system:serviceaccount:" + Namespace + ":" + c.account
}
