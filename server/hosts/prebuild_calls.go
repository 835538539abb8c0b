package hosts

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/refusal"
)

// Prebuild has the host of an instance prepare a machine in the background (M64), or, with none, no more of
// what it was asked for before. The instance is one of the caller's tenant.
func (m *Machines) Prebuild(ctx context.Context, in cache.Instance, req *nstancev1.PutPrebuildRequest) error {
	wanted := req.GetPrebuild()
	if wanted.GetScope() == nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_UNSPECIFIED && wanted.GetAssignment() == nil {
		wanted = nil
	}
	err := checkPrebuild(wanted)
	if err == nil {
		err = m.mayHave(in.ID, wanted == nil)
	}
	known := m.find(in.ID)
	if err == nil && known == nil {
		err = errNotConnected(in.ID)
	}
	if err != nil {
		return m.answer("prebuild", refused, err)
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	switch {
	case !known.stream.open:
		return m.answer("prebuild", refused, errNotConnected(in.ID))
	case !known.status.GetPrebuilds():
		return m.answer("prebuild", refused, refusal.New(refusal.FailedPrecondition, "PREBUILD_NOT_OFFERED",
			"the host of instance %q does not say that it prepares machines: its agent or its paver is of an earlier release, or it has not reported", in.ID))
	}
	what := repeated
	if known.prebuild.take(wanted) {
		what = accepted
		m.opts.Log.InfoContext(ctx, "prebuild taken", "instance", in.ID, "tenant", in.Group.Tenant, "group", in.Group.Name,
			"scope", wanted.GetScope().String(), "configuration", wanted.GetAssignment().GetConfiguration().GetName(),
			"version", wanted.GetAssignment().GetConfiguration().GetVersion(), "reason", "its operator has put it")
		m.deliver(known)
		m.watchers.tell(known.tenant, known.id)
	}
	return m.answer("prebuild", what, nil)
}

// checkPrebuild reports what is wrong with a prebuild; nil is one that ends another. It quotes nothing of
// its secrets (S14).
func checkPrebuild(p *nstancev1.MachinePrebuild) error {
	if p == nil {
		return nil
	}
	a, secrets := p.GetAssignment(), 0
	for name, content := range p.GetPullSecrets() {
		secrets += len(name) + len(content)
	}
	var field, why string
	switch {
	case a == nil:
		field, why = "assignment", "it is missing"
	case nstancev1.MachinePrebuildScope_name[int32(p.GetScope())] == "" || p.GetScope() == nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_UNSPECIFIED:
		field, why = "scope", "it must be one that this server knows; upgrade the servers before the operator"
	case a.GetMode() != nstancev1.MachineMode_MACHINE_MODE_PREBUILD:
		field, why = "assignment.mode", "it must be that of a prebuild"
	case a.GetEpoch() != 0:
		field, why = "assignment.epoch", "a prebuild has none"
	case !dnsLabel.MatchString(a.GetMachineName()):
		field, why = "assignment.machine_name", "it must be a DNS label of at most 63 characters"
	case a.GetMachineUid() == "" || len(a.GetMachineUid()) > maxUID:
		field, why = "assignment.machine_uid", fmt.Sprintf("it must have 1 to %d characters", maxUID)
	case proto.Size(a) > MaxPayload:
		field, why = "assignment", fmt.Sprintf("it has %d bytes, and may have %d; make files, units or CA bundles of the template smaller", proto.Size(a), MaxPayload)
	case secrets > MaxCredential:
		field, why = "pull_secrets", fmt.Sprintf("they have %d bytes, and may have %d", secrets, MaxCredential)
	default:
		field, why = checkContent(a)
	}
	if field == "" {
		return nil
	}
	return refusal.New(refusal.InvalidArgument, "INVALID_PREBUILD", "prebuild.%s: %s", field, why)
}
