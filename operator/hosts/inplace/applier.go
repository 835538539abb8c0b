package inplace

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
	"nstance.dev/operator/hosts/versions"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Reasons of operations that failed.
const (
	ReasonNeedsRepave = "NeedsRepave"
	ReasonNotJoined   = "NotJoined"
)

// Applier carries out applyConfiguration. All fields are required; it is safe for concurrent use.
type Applier struct {
	Versions client.Reader // of the cluster of the machines
	Nodes    client.Client // of the cluster that Nodes join
	// Group returns what the group of a machine's instance sets of its Nodes; nil: nothing. false: that is
	// not known now.
	Group func(m *hostsv1.HostMachine) (*nstancev1.NodeSettings, bool)
	// Host has hosts carry operations out.
	Host Host
}

// Host has the paver of a machine carry operations out. [orders.Relay] does.
type Host interface {
	// Offers are the operations that the paver of a machine offers, as long as its agent is connected.
	Offers(m *hostsv1.HostMachine) []string
	Carry(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (*operations.Outcome, error)
}

// Offers are the operations that it carries out.
func (a *Applier) Offers(*hostsv1.HostMachine) []string {
	return []string{hostsv1.OperationApplyConfiguration}
}

// Carry carries an operation out, which may be repeated. An error is worth another try.
func (a *Applier) Carry(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (*operations.Outcome, error) {
	c, ref := m.Status.Configuration, m.Status.NodeRef
	if c == nil || c.Applied == nil || c.Desired == nil || ref == nil || ref.UID == "" {
		return failed(ReasonNotJoined, "HostMachine %s has no Node that has joined", m.Name), nil
	}
	node := &corev1.Node{}
	if err := a.Nodes.Get(ctx, client.ObjectKey{Name: ref.Name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return failed(ReasonNotJoined, "Node %s is gone", ref.Name), nil
		}
		return nil, fmt.Errorf("read Node %s: %w", ref.Name, err)
	}
	if string(node.UID) != ref.UID {
		return failed(ReasonNotJoined, "Node %s is another one than has joined", ref.Name), nil
	}
	built, err := a.template(ctx, &c.Applied.VersionReference)
	if err != nil {
		return nil, err
	}
	wanted, err := a.template(ctx, c.Desired)
	if err != nil {
		return nil, err
	}
	settings, known := a.Group(m)
	if !known {
		return nil, fmt.Errorf("group of the instance of HostMachine %s: its shard has not said all that it knows", m.Name)
	}
	d, err := Decide(node, built, wanted, settings, slices.Contains(a.Host.Offers(m), hostsv1.OperationApplyConfiguration))
	switch {
	case err != nil:
		return failed(hostsv1.ReasonExecutorFailed, "%s", err), nil
	case len(d.Repave) > 0:
		return failed(ReasonNeedsRepave, "these fields take a repave: %s", strings.Join(d.Repave, ", ")), nil
	}
	results := map[string]string{"changed": strings.Join(d.Changed, ", "), "kept": strings.Join(d.Kept, ", ")}
	if d.Keys != nil {
		came, err := a.Host.Carry(ctx, onHost(op, d.Keys), m)
		if err != nil || came == nil || came.Failed {
			return came, err
		}
		if refused := came.Results["refused"]; refused != "" {
			results["refused"] = refused
		}
	}
	if d.Node != nil {
		if err := a.Nodes.Patch(ctx, d.Node, client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})); err != nil {
			return nil, fmt.Errorf("write labels and taints of Node %s: %w", node.Name, err)
		}
	}
	return &operations.Outcome{
		Message: fmt.Sprintf("labels, taints and SSH keys of version %d of %s", c.Desired.Version, c.Desired.Name),
		Results: results,
	}, nil
}

// onHost is what the host does of an operation: it sets SSH keys. It has the id of the whole, so it is done once.
func onHost(op *hostsv1.MachineOperation, keys map[string]string) *hostsv1.MachineOperation {
	op = op.DeepCopy()
	op.Spec.Parameters = map[string]hostsv1.ParameterValue{}
	for key, value := range keys {
		op.Spec.Parameters[key] = hostsv1.ParameterValue(value)
	}
	return op
}

func failed(reason, format string, args ...any) *operations.Outcome {
	return &operations.Outcome{Failed: true, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// template reads the template of a version.
func (a *Applier) template(ctx context.Context, ref *hostsv1.VersionReference) (*hostsv1.Template, error) {
	v := &hostsv1.MachineConfigurationVersion{}
	name := versions.Name(string(ref.Name), ref.Version)
	if err := a.Versions.Get(ctx, client.ObjectKey{Name: name}, v); err != nil {
		return nil, fmt.Errorf("read MachineConfigurationVersion %s: %w", name, err)
	}
	return &v.Spec.Template, nil
}
