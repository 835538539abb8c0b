package csr

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/lifecycle"
	"nstance.dev/operator/hosts/selection"
)

// IndexCredential is the index of HostMachines by the credential that was made for them last.
const IndexCredential = "credentialID"

// Index is the value of a HostMachine in the index.
func Index(o client.Object) []string {
	if m, ok := o.(*hostsv1.HostMachine); ok && m.Status.Repave != nil && m.Status.Repave.Join != nil && m.Status.Repave.Join.CredentialID != "" {
		return []string{m.Status.Repave.Join.CredentialID}
	}
	return nil
}

// byNodeName is the index of HostMachines by the name of their Node, which the controller that selects
// configurations registers.
const byNodeName = "nodeName"

// lookup finds the machines of one request.
type lookup struct {
	ctx     context.Context //nolint:containedctx // of the one call that it is made for
	reader  client.Reader
	objects map[string]*hostsv1.HostMachine // those that were found, by name
	err     error                           // the first; what was decided with it is not carried out
}

var _ Fleet = (*lookup)(nil)

// ByCredential implements [Fleet]. Where two machines have it, neither is meant.
func (l *lookup) ByCredential(id string) (Machine, bool) {
	found := l.find(IndexCredential, id)
	if len(found) != 1 {
		return Machine{}, false
	}
	return l.of(&found[0])
}

// ByNode implements [Fleet]. Of two machines with one node name the older has the Node: the other is
// never assigned.
func (l *lookup) ByNode(name string) (Machine, bool) {
	found := l.find(byNodeName, name)
	conflicts := selection.NameConflicts(found)
	for i := range found {
		if _, younger := conflicts[found[i].Name]; !younger {
			return l.of(&found[i])
		}
	}
	return Machine{}, false
}

// of remembers a machine that was found.
func (l *lookup) of(m *hostsv1.HostMachine) (Machine, bool) {
	if l.objects == nil {
		l.objects = map[string]*hostsv1.HostMachine{}
	}
	l.objects[m.Name] = m
	return machineOf(m), true
}

// find returns the machines that have a value in an index.
func (l *lookup) find(index, value string) []hostsv1.HostMachine {
	var list hostsv1.HostMachineList
	if err := l.reader.List(l.ctx, &list, client.MatchingFields{index: value}); err != nil {
		if l.err == nil {
			l.err = fmt.Errorf("list the HostMachines of %s %q: %w", index, value, err)
		}
		return nil
	}
	return list.Items
}

// machineOf is a machine, as far as requests are concerned.
func machineOf(m *hostsv1.HostMachine) Machine {
	of := certificates(m)
	out := Machine{
		Name: m.Name, NodeName: m.NodeName(), Deleting: !m.DeletionTimestamp.IsZero(), Epoch: of.Epoch, Approved: of.Approved, LastRequest: of.LastRequest, Stage: Before,
	}
	s := m.Status.Repave
	if s == nil {
		return out
	}
	if s.Join != nil {
		out.CredentialEpoch = s.Join.Epoch
	}
	if s.Epoch != of.Epoch {
		return out
	}
	switch lifecycle.Stage(s.Stage) {
	case lifecycle.StageBoot, lifecycle.StageJoin:
		out.Stage = Joining
	case lifecycle.StageCommit, lifecycle.StageSweep, lifecycle.StageRunning, lifecycle.StageFailed, lifecycle.StageResetting, lifecycle.StageReset:
		out.Stage = After
	case lifecycle.StageUnknown, lifecycle.StageIdle, lifecycle.StageFetch, lifecycle.StageBuild, lifecycle.StageGuard, lifecycle.StageRetire:
	}
	return out
}
