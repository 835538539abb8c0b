package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/lifecycle"
	"nstance.dev/operator/hosts/selection"
	"nstance.dev/operator/inventory"
)

// byNodeName is the index of HostMachines by the name of their Node, which the controller that selects
// configurations registers.
const byNodeName = "nodeName"

// observe gathers all that a decision about a machine follows from.
func (r *Reconciler) observe(ctx context.Context, p *pass) error {
	p.in.Machine = p.m
	if p.m.Spec.Instance == nil {
		return nil
	}
	if err := r.desired(ctx, p); err != nil {
		return err
	}
	shard, id := string(p.m.Spec.Instance.Shard), string(p.m.Spec.Instance.ID)
	p.in.Host = r.opts.Reports.Host(shard, id)
	p.in.Instance, p.held = instance(r.opts.Inventory, shard, id, r.opts.Now())
	owner, err := r.owner(ctx, p.m)
	if err != nil {
		return err
	}
	if owner != nil && !owner.DeletionTimestamp.IsZero() && p.in.Instance.Leaving == "" {
		p.in.Instance.Leaving = fmt.Sprintf("its Machine %s is being deleted", owner.Name)
	}
	return r.look(ctx, p)
}

// desired is what the machine would be built from.
func (r *Reconciler) desired(ctx context.Context, p *pass) error {
	var configurations hostsv1.MachineConfigurationList
	if err := r.opts.Client.List(ctx, &configurations, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list MachineConfigurations: %w", err)
	}
	var all hostsv1.MachineConfigurationVersionList
	if err := r.opts.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list MachineConfigurationVersions: %w", err)
	}
	var same hostsv1.HostMachineList
	if err := r.opts.Client.List(ctx, &same, client.MatchingFields{byNodeName: p.m.NodeName()}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the HostMachines of node %s: %w", p.m.NodeName(), err)
	}
	in := selection.Cluster{Configurations: selection.Observe(configurations.Items, all.Items), APIServer: r.opts.Nodes.Version()}
	in.SecretMissing = func(name string) bool { return r.opts.SecretMissing(ctx, name) }
	choice := selection.Choose(p.m, in)
	p.in.Desired = lifecycle.Desired{Version: choice.Desired, Reason: choice.Reason, Message: choice.Message, Known: known(in)}
	p.in.Rolled = rolled(p.m, choice.Configuration, configurations.Items)
	if c := choice.Desired; c != nil && !chosen(p.m, *c) {
		p.in.Desired.Version, p.in.Desired.Reason = nil, hostsv1.ReasonWriting
		p.in.Desired.Message = fmt.Sprintf("MachineConfiguration %s is chosen, and the status does not say so yet", c.Name)
	}
	if p.in.Older = selection.NameConflicts(same.Items)[p.m.Name]; p.in.Older != "" {
		p.in.Desired.Version, p.in.Desired.Reason = nil, hostsv1.ReasonNodeNameConflict
		p.in.Desired.Message = fmt.Sprintf("HostMachine %s has the node name %s too, and came before", p.in.Older, p.m.NodeName())
	}
	return nil
}

// rolled is whether rollouts bring a machine to the newest version of its configuration.
func rolled(m *hostsv1.HostMachine, configuration string, all []hostsv1.MachineConfiguration) bool {
	if ref := m.Spec.ConfigurationRef; ref != nil && ref.Version != nil {
		return false
	}
	i := slices.IndexFunc(all, func(c hostsv1.MachineConfiguration) bool { return c.Name == configuration })
	return i >= 0 && all[i].Spec.UpdateStrategy != nil && all[i].Spec.UpdateStrategy.Type == hostsv1.UpdateRolling
}

// chosen is whether the status says that a machine has a configuration. Which one it has is decided by the
// controller that selects, which asks the API server where it matters; which version of it is the newest
// one here and now.
func chosen(m *hostsv1.HostMachine, v hostsv1.VersionReference) bool {
	c := m.Status.Configuration
	return c != nil && c.Desired != nil && c.Desired.Name == v.Name && c.Desired.UID == v.UID
}

// known reports whether a version exists as a host says that it was built from.
func known(in selection.Cluster) func(hostsv1.VersionReference) bool {
	return func(v hostsv1.VersionReference) bool {
		for _, c := range in.Configurations {
			if c.Name != string(v.Name) || string(c.UID) != v.UID || c.Deleting {
				continue
			}
			for _, of := range c.Versions {
				if of.Number == v.Version && of.Hash == v.Hash {
					return true
				}
			}
		}
		return false
	}
}

// instance is what a shard says of an instance, and whether that is on hold.
func instance(store *inventory.Store, shard, id string, now time.Time) (i lifecycle.Instance, held bool) {
	store.Read(shard, func(s *inventory.Shard) {
		in := s.Instance(id)
		held = !inventory.HeldUntil(in, now).IsZero()
		i.PowerHeld = held && in.GetHold().GetReason() == hostsv1.HoldPower
		i.Off = in.GetStatus() == inventory.StatusPoweredOff
		i.Gone, i.Complete = s.Presence(id) == inventory.Gone, s.State().Synced()
		i.Running, i.Alive = inventory.Runs(in), in.GetLastSeen() != nil
		switch in.GetStatus() {
		case inventory.StatusDraining, inventory.StatusTerminating, inventory.StatusTerminated:
			i.Leaving = "the instance is " + in.GetStatus()
		}
		if c := in.GetCondemned(); c != nil {
			i.Leaving = "the instance is condemned: " + c.GetReason()
		}
	})
	return i, held
}

// look looks for the Node. The cache is believed where it has the Node that the machine has, and where
// the machine has none; that a Node is gone is asked of the API server.
func (r *Reconciler) look(ctx context.Context, p *pass) error {
	name, ref := p.m.NodeName(), nodeUID(p.m)
	node := &corev1.Node{}
	err := r.opts.Nodes.Client.Get(ctx, client.ObjectKey{Name: name}, node)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("read Node %s: %w", name, err)
	case err == nil && (ref == "" || string(node.UID) == ref):
		p.memory.absence = lifecycle.Absence{}
		p.seen(node)
		return nil
	case err != nil && ref == "":
		p.in.Node = lifecycle.Node{Presence: lifecycle.NodeAbsent}
		return nil
	}
	r.lookLive(ctx, p)
	return nil
}

// lookLive asks the API server for the Node.
func (r *Reconciler) lookLive(ctx context.Context, p *pass) {
	name, ref := p.m.NodeName(), nodeUID(p.m)
	node := &corev1.Node{}
	err := r.opts.Nodes.Live.Get(ctx, client.ObjectKey{Name: name}, node)
	p.live, p.node = true, nil
	look := lifecycle.Look{Answered: err == nil || isAbsent(err)}
	if err == nil {
		look.UID = string(node.UID)
	}
	p.memory.absence = p.memory.absence.Next(ref, look, r.opts.Now())
	switch {
	case err == nil:
		p.seen(node)
	case look.Answered:
		p.in.Node = lifecycle.Node{Presence: lifecycle.NodeAbsent}
	default:
		p.log.WarnContext(ctx, "the API server does not say whether the Node exists; nothing is touched", "node", name, "error", err)
		p.in.Node = lifecycle.Node{Presence: lifecycle.NodeUnknown, Why: err.Error()}
	}
	p.in.Node.Confirmed = p.memory.absence.Confirmed(ref)
}

// seen takes a Node in.
func (p *pass) seen(n *corev1.Node) {
	p.node = n
	p.in.Node = lifecycle.Node{
		Presence: lifecycle.NodeLive, UID: string(n.UID), ResourceVersion: n.ResourceVersion, BootID: n.Status.NodeInfo.BootID,
		MachineUID: n.Annotations[hostsv1.AnnotationMachineUID],
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			p.in.Node.Ready, p.in.Node.ReadyMessage, p.in.Node.Heartbeat = c.Status == corev1.ConditionTrue, c.Message, c.LastHeartbeatTime.Time
		}
	}
	if s := p.m.Status.Configuration; s != nil && s.Applied != nil {
		p.in.Node.Marked = marked(n, p.m, s.Applied.VersionReference) == n
	}
}

// isAbsent is whether the API server itself says that there is no such object. What stands in front
// of one that is away may answer everything with 404, which is a NotFound with a cause that says so.
func isAbsent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}
