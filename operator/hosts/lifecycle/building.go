package lifecycle

import (
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// MostCertificates is how many certificates are approved for one assignment: a machine that loses
// the first while it joins may ask again, and no more than that.
const MostCertificates = 3

// mostAttempts is after how many failures a host gives an assignment up that replaces something (M59).
const mostAttempts = 3

// building is row 7: the host builds what it was told. A Node that the kubelet of before has made is
// deleted between the end of its machine and the start of the next one, whose kubelet then makes a
// Node of its own; later it would lose a Node that it believes to have. The Node that the machine has, of a host that has
// lost its journal, is left for the new kubelet to take over.
func building(in Input) Decision {
	r, rep := in.Host.Report, in.Machine.Status.Repave
	d := Decision{Row: RowBuilding, Reason: "the host is in stage " + string(r.Stage)}
	if r.CredentialNeeded {
		d.After = credentialPause
	}
	if rep != nil && rep.ReplacedBootID != "" && in.Node.there() && in.Node.UID != refers(in.Machine) && in.Node.BootID == rep.ReplacedBootID && r.running() == nil && r.Stage != StageJoin {
		d.Action, d.Reason = RemoveNode, "the machine that the Node is of is stopped"
		d.Joined = Joined{NodeUID: in.Node.UID, ResourceVersion: in.Node.ResourceVersion}
	}
	return d
}

// forgotten is whether a host builds again what had joined: it has lost its journal, or the machine
// before it heard of that. No credential is made for what has joined, so it would wait for one for ever;
// and what was taken over cannot be taken over again.
func forgotten(in Input) bool {
	a, r, s := assigned(in.Machine), in.Host.Report, in.Host.Stored
	if adopts(in.Machine) {
		return r.failed(a.Epoch) != nil && r.running() == nil
	}
	return r.Stage.Building() && r.running() == nil && r.CredentialNeeded && r.Epoch == a.Epoch && s != nil && s.Epoch == a.Epoch && s.Confirmed != ""
}

// rebuild assigns what a host builds again as an epoch of its own, with a credential of its own: the same
// version, as nobody has asked for another. Its Node may be there still: the new machine takes it over.
func rebuild(in Input) Decision {
	d := Decision{Row: RowBuilding, Action: Assign, Reason: "the host builds again what had joined, and has no credential"}
	d.Assignment = Assignment{
		Mode: hostsv1.ModeRepave, Epoch: next(in), Reason: ReasonRetried, ExpectedNodeUID: in.Node.UID, Version: assigned(in.Machine).VersionReference,
	}
	return begin(in, d)
}

// replaced is what takes the place of an assignment that the host tries for ever, because there is nothing that it
// could go back to (M61): once it has failed, another version that is desired, or another epoch where a user asks
// for one or where all certificates of this one are used up. What can be given up is, and that is row 10; what has
// joined stays.
func replaced(in Input) (d Decision, another bool) {
	m, a, r, rep := in.Machine, assigned(in.Machine), in.Host.Report, in.Machine.Status.Repave
	d = Decision{Row: RowBuilding, Action: Assign}
	d.Assignment = Assignment{Mode: hostsv1.ModePave, Epoch: next(in), Reason: ReasonRetried, ExpectedNodeUID: in.Node.UID}
	least := int32(1)
	if rep != nil && rep.Mode == hostsv1.ModeRepave { // the host has lost what it replaces, if it goes on for longer
		d.Assignment.Mode, least = hostsv1.ModeRepave, mostAttempts+1
	}
	if r.Attempts < least || r.Stage == StageCommit || r.Stage == StageSweep || refers(m) != "" {
		return Decision{}, false
	}
	switch other := in.Desired.Version; {
	case other != nil && !same(*other, a.VersionReference):
		d.Reason = "another version is desired than the one that fails"
	case retried(m):
		d.Reason = "annotation " + hostsv1.AnnotationRetry + " asks for another try"
	case rep != nil && rep.Certificates != nil && rep.Certificates.Epoch == a.Epoch && rep.Certificates.Approved >= MostCertificates:
		d.Reason = "all certificates of the epoch are used up, and its machine has not joined"
	default:
		return Decision{}, false
	}
	return begin(in, of(in, d)), true
}
