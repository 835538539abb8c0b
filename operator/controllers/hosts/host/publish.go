package host

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/assignment"
	"nstance.dev/operator/hosts/pullsecrets"
	"nstance.dev/operator/inventory"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// credentialLife is how long a machine has for joining with one credential.
const credentialLife = time.Hour

// publish tells the shard what is assigned. Its content comes from the locked version, so it is the
// same however often it is published.
func (r *Reconciler) publish(ctx context.Context, p *pass) error {
	server, err := r.server(p.m)
	if err != nil {
		return err
	}
	a, mode := p.m.Status.Configuration.Assigned, hostsv1.ModePave
	if p.m.Status.Repave != nil {
		mode = p.m.Status.Repave.Mode
	}
	written := false
	request := &nstancev1.PutAssignmentRequest{InstanceId: string(p.m.Spec.Instance.ID)}
	if mode == hostsv1.ModeReset {
		request.Assignment = assignment.Reset(p.m, bound(r.opts.Inventory, p.m))
	} else {
		locked, err := r.opts.Lock(ctx, string(a.Name), a.Version, p.m.Name)
		if err != nil {
			return fmt.Errorf("publish version %d of %s for HostMachine %s: %w", a.Version, a.Name, p.m.Name, err)
		}
		if locked.Reference != a.VersionReference {
			return fmt.Errorf("publish version %d of %s for HostMachine %s: it is another one than was assigned, hash %s and not %s", a.Version, a.Name, p.m.Name, locked.Reference.Hash, a.Hash)
		}
		group := group(r.opts.Inventory, p.m)
		if request.Assignment, err = assignment.Make(p.m, mode, locked.Content, group, r.opts.Nodes.API(ctx)); err != nil {
			return fmt.Errorf("publish version %d of %s for HostMachine %s: %w", a.Version, a.Name, p.m.Name, err)
		}
		if mode != hostsv1.ModeAdopt {
			if request.Credential, written, err = r.credential(ctx, p, &locked.Content.Template); err != nil {
				return err
			}
		}
		r.overridden(p, assignment.Overridden(&locked.Content.Template, group))
	}
	if !written {
		if err := r.write(ctx, p, nil); err != nil {
			return err
		}
	}
	if mode != hostsv1.ModeReset && mode != hostsv1.ModeAdopt {
		if err := r.holdWhileBuilt(ctx, p, server); err != nil {
			return err
		}
	}
	if err := server.PutAssignment(ctx, request); err != nil {
		return fmt.Errorf("publish epoch %d of HostMachine %s: %w", a.Epoch, p.m.Name, err)
	}
	p.log.InfoContext(ctx, "published assignment", "epoch", a.Epoch, "mode", string(mode), "configuration", string(a.Name), "version", a.Version,
		"credential_sequence", request.GetCredential().GetSequence())
	return nil
}

// credential returns what the machine joins with: the one that was made last, or a new one, whose ID is
// written into the status, with all else that there is to say, before anybody has it.
func (r *Reconciler) credential(ctx context.Context, p *pass, t *hostsv1.Template) (of *nstancev1.MachineCredential, written bool, err error) {
	a := p.m.Status.Configuration.Assigned
	secrets, err := r.pullSecrets(ctx, t)
	if err != nil {
		return nil, false, err
	}
	if c := p.memory.credential; c != nil && c.GetEpoch() == a.Epoch && !p.d.NewCredential && current(p.m, c) {
		out := proto.CloneOf(c)
		out.PullSecrets = secrets
		return out, false, nil
	}
	issued, err := r.opts.Credentials.Issue(ctx, p.m.Name, credentialLife)
	if err != nil {
		return nil, false, fmt.Errorf("credential of HostMachine %s: %w", p.m.Name, err)
	}
	sequence := int32(1)
	if j := joinOf(p.m); j != nil && j.Epoch == a.Epoch {
		sequence = j.Sequence + 1
	}
	now, until := metav1.NewTime(r.opts.Now().Truncate(time.Second)), metav1.NewTime(issued.Until.Truncate(time.Second))
	err = r.write(ctx, p, func(s *hostsv1.HostMachineStatus) {
		if s.Repave == nil {
			s.Repave = &hostsv1.RepaveStatus{Epoch: a.Epoch}
		}
		s.Repave.Join = &hostsv1.JoinStatus{Epoch: a.Epoch, Sequence: sequence, CredentialID: issued.ID, IssuedAt: &now, ExpiresAt: &until}
	})
	if err != nil {
		return nil, false, err
	}
	p.log.InfoContext(ctx, "made credential", "epoch", a.Epoch, "sequence", sequence, "until", issued.Until)
	p.memory.credential = &nstancev1.MachineCredential{Epoch: a.Epoch, Sequence: sequence, Token: issued.Token, ExpiresAt: timestamppb.New(issued.Until)}
	out := proto.CloneOf(p.memory.credential)
	out.PullSecrets = secrets
	return out, true, nil
}

// current is whether a credential is the one that the status of its machine knows.
func current(m *hostsv1.HostMachine, c *nstancev1.MachineCredential) bool {
	j := joinOf(m)
	return j != nil && j.Epoch == c.GetEpoch() && j.Sequence == c.GetSequence()
}

func joinOf(m *hostsv1.HostMachine) *hostsv1.JoinStatus {
	if m.Status.Repave == nil {
		return nil
	}
	return m.Status.Repave.Join
}

// pullSecrets reads the Secrets that a template takes.
func (r *Reconciler) pullSecrets(ctx context.Context, t *hostsv1.Template) (map[string][]byte, error) {
	var all map[string][]byte
	for _, name := range t.PullSecrets() {
		content, err := pullsecrets.Read(ctx, r.opts.Secrets, r.opts.Namespace, name)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = map[string][]byte{}
		}
		all[name] = content
	}
	return all, nil
}

// group is what the group of the machine's instance sets of its Nodes; nil: nothing, or it is not known.
func group(store *inventory.Store, m *hostsv1.HostMachine) (of *nstancev1.NodeSettings) {
	in := m.Spec.Instance
	store.Read(string(in.Shard), func(s *inventory.Shard) { of = s.Group(string(in.Group)).GetNode() })
	return of
}

// GroupSettings returns what the group of a machine's instance sets of its Nodes, from what the shards say; false: that
// is not known.
func GroupSettings(store *inventory.Store) func(*hostsv1.HostMachine) (*nstancev1.NodeSettings, bool) {
	return func(m *hostsv1.HostMachine) (of *nstancev1.NodeSettings, known bool) {
		if m.Spec.Instance == nil {
			return nil, true
		}
		store.Read(string(m.Spec.Instance.Shard), func(s *inventory.Shard) { known = s.State().Synced() })
		return group(store, m), known
	}
}

// bound is whether the machine's instance is bound to clusters for a time, and goes to another one then:
// nothing of this one may be left on it.
func bound(store *inventory.Store, m *hostsv1.HostMachine) (is bool) {
	in := m.Spec.Instance
	store.Read(string(in.Shard), func(s *inventory.Shard) { is = s.Instance(string(in.ID)).GetMachine().GetBinding() != "" })
	return is
}

// overridden tells once of labels of a template that the group sets to another value.
func (r *Reconciler) overridden(p *pass, labels []string) {
	what := "labels of the group: " + strings.Join(labels, ", ")
	if len(labels) == 0 || p.memory.problems[what] {
		return
	}
	p.memory.problems[what] = true
	r.warn(p.m, hostsv1.EventNodeLabelOverridden, "the group of the instance sets other values for labels of the template, and wins: %s", strings.Join(labels, ", "))
}
