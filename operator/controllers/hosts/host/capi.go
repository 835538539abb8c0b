package host

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/nodes"
)

// skipped is the value of the annotation by which this controller keeps a Machine from being remediated.
// One of another value is a user's, and stays.
const skipped = capi.AnnotationRepaving

// owner returns the Machine of Cluster API that stands for the instance of a machine; nil: there is none.
func (r *Reconciler) owner(ctx context.Context, m *hostsv1.HostMachine) (*clusterv1.Machine, error) {
	infra, err := nodes.Machine(ctx, r.opts.Client, r.opts.Namespace, string(m.Spec.Instance.ID))
	if err != nil || infra == nil {
		return nil, err
	}
	return capi.OwnerMachine(ctx, r.opts.Client, infra)
}

// remediation keeps Cluster API from replacing a machine whose Node is away because its host is repaved, reboots or is
// switched off on purpose, and lets it again.
func (r *Reconciler) remediation(ctx context.Context, p *pass, repaving bool) error {
	m := p.m
	if m.Spec.Instance == nil {
		return nil
	}
	owner, err := r.owner(ctx, m)
	if err != nil || owner == nil {
		return err
	}
	change := map[string]*string{}
	skip, skips := owner.Annotations[clusterv1.MachineSkipRemediationAnnotation]
	epoch, marked := owner.Annotations[capi.AnnotationRepaving]
	switch want := epochText(m); {
	case repaving && epoch != want:
		change[capi.AnnotationRepaving] = &want
	case !repaving && marked:
		change[capi.AnnotationRepaving] = nil
	}
	switch skipping := repaving || p.held && m.DeletionTimestamp.IsZero(); {
	case skipping && !skips:
		value := skipped
		change[clusterv1.MachineSkipRemediationAnnotation] = &value
	case !skipping && skip == skipped:
		change[clusterv1.MachineSkipRemediationAnnotation] = nil
	}
	if len(change) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": owner.UID, "annotations": change}})
	if err != nil {
		return fmt.Errorf("patch of Machine %s: %w", owner.Name, err)
	}
	if err := r.opts.Client.Patch(ctx, owner.DeepCopy(), client.RawPatch(types.MergePatchType, patch), manager); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("annotations of Machine %s: %w", owner.Name, err)
	}
	r.opts.Log.InfoContext(ctx, "changed remediation of Machine", "machine", m.Name, "owner", owner.Name, "repaving", repaving, "on_hold", p.held)
	return nil
}

// epochText is the epoch that the host of a machine is repaved for.
func epochText(m *hostsv1.HostMachine) string {
	if c := m.Status.Configuration; c != nil && c.Assigned != nil {
		return strconv.FormatInt(c.Assigned.Epoch, 10)
	}
	return "0"
}
