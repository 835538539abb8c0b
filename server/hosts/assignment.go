package hosts

import (
	"fmt"
	"regexp"
	"time"
	"unique"

	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/layout"
	"nstance.dev/server/refusal"
)

// assignment is one that is stored. It does not change.
type assignment struct {
	rec  layout.MachineRecord         // without its payload
	head *nstancev1.MachineAssignment // without its template

	// template is the encoded template, empty for none. Machines that are built from the same
	// one share it.
	template unique.Handle[string]
}

// newAssignment takes an assignment apart that is to be stored at a moment.
func newAssignment(a *nstancev1.MachineAssignment, rec layout.MachineRecord) (*assignment, error) {
	var template []byte
	if a.GetTemplate() != nil {
		var err error
		if template, err = encoding.Marshal(a.Template); err != nil {
			return nil, err
		}
	}
	full := a.Template
	a.Template = nil
	head := proto.CloneOf(a)
	a.Template = full
	rec.Epoch, rec.Hash, rec.Payload = a.GetEpoch(), a.GetConfiguration().GetHash(), nil
	return &assignment{rec: rec, head: head, template: unique.Make(string(template))}, nil
}

// encoding has equal assignments look alike within one build, so that templates are shared.
var encoding = proto.MarshalOptions{Deterministic: true}

// readAssignment returns the one of a record that was read.
func readAssignment(rec layout.MachineRecord) (*assignment, error) {
	var a nstancev1.MachineAssignment
	if err := proto.Unmarshal(rec.Payload, &a); err != nil {
		return nil, fmt.Errorf("%w: member payload: it is not an assignment", layout.ErrUnreadable)
	}
	if a.GetEpoch() != rec.Epoch || a.GetConfiguration().GetHash() != rec.Hash {
		return nil, fmt.Errorf("%w: member payload: epoch or hash is not that of the record", layout.ErrUnreadable)
	}
	return newAssignment(&a, rec)
}

// message is the assignment as the host is sent it.
func (a *assignment) message() (*nstancev1.MachineAssignment, error) {
	out := proto.CloneOf(a.head)
	if text := a.template.Value(); text != "" {
		out.Template = &nstancev1.MachineTemplate{}
		if err := proto.Unmarshal([]byte(text), out.Template); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// record is the assignment as it is stored.
func (a *assignment) record() (layout.MachineRecord, error) {
	rec := a.rec
	message, err := a.message()
	if err == nil {
		rec.Payload, err = encoding.Marshal(message)
	}
	return rec, err
}

// epoch is that of an assignment, 0 for none.
func (a *assignment) epoch() int64 {
	if a == nil {
		return 0
	}
	return a.rec.Epoch
}

// waits reports whether something is to be built that nobody has confirmed.
func (a *assignment) waits() bool {
	return a != nil && a.rec.Confirmed == nil && a.head.GetMode() != nstancev1.MachineMode_MACHINE_MODE_RESET
}

// joins reports whether what is to be built joins with a credential. A machine that is taken
// over has joined.
func (a *assignment) joins() bool {
	return a.waits() && a.head.GetMode() != nstancev1.MachineMode_MACHINE_MODE_ADOPT
}

// state is that of the assignment in metrics; empty: there is none.
func (a *assignment) state() string {
	switch {
	case a == nil:
		return ""
	case a.rec.Confirmed != nil:
		return "confirmed"
	}
	return "waiting"
}

// verdict is what becomes of an assignment that is put.
type verdict uint8

const (
	refused verdict = iota
	repeated
	accepted
)

// decide says what becomes of an assignment where another one, or none, is stored: a lower
// epoch never replaces a higher one, and an epoch has one content for ever (M41). It changes
// nothing.
func decide(stored *assignment, put *nstancev1.MachineAssignment, expected *int64) (verdict, error) {
	switch have, epoch := stored.epoch(), put.GetEpoch(); {
	case have == epoch && sameWork(stored.head, put):
		return repeated, nil
	case have == epoch:
		return refused, refusal.New(refusal.AlreadyExists, "EPOCH_CONFLICT",
			"assignment.epoch: %d is stored with another template, mode or machine; use the next epoch", epoch)
	case have > epoch:
		return refused, refusal.New(refusal.FailedPrecondition, "EPOCH_TOO_LOW", "assignment.epoch: %d is lower than the stored %d; use a higher one", epoch, have)
	case expected != nil && *expected != have:
		return refused, refusal.New(refusal.Aborted, "EPOCH_CHANGED", "expected_epoch: the stored epoch is %d, and not %d", have, *expected)
	}
	return accepted, nil
}

// sameWork reports whether two assignments of one epoch ask for the same.
func sameWork(a, b *nstancev1.MachineAssignment) bool {
	return a.GetConfiguration().GetHash() == b.GetConfiguration().GetHash() && a.GetMode() == b.GetMode() && a.GetMachineUid() == b.GetMachineUid()
}

var (
	dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	dnsName  = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)
	sha256   = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// maxUID is the longest UID of a Kubernetes object that is taken.
const maxUID = 64

// check reports what is wrong with an assignment that a caller wants stored. What is built,
// and from what, is not looked at: the host checks that against its own policy.
func check(a *nstancev1.MachineAssignment) error {
	reset := a.GetMode() == nstancev1.MachineMode_MACHINE_MODE_RESET
	field, why := "", ""
	switch {
	case a == nil:
		field, why = "assignment", "it is missing"
	case !dnsLabel.MatchString(a.MachineName):
		field, why = "assignment.machine_name", "it must be a DNS label of at most 63 characters"
	case a.MachineUid == "" || len(a.MachineUid) > maxUID:
		field, why = "assignment.machine_uid", fmt.Sprintf("it must have 1 to %d characters", maxUID)
	case a.Epoch < 1:
		field, why = "assignment.epoch", fmt.Sprintf("%d is less than 1", a.Epoch)
	case a.Mode == nstancev1.MachineMode_MACHINE_MODE_PREBUILD:
		field, why = "assignment.mode", "what is only to be prepared is put with PutPrebuild"
	case nstancev1.MachineMode_name[int32(a.Mode)] == "" || a.Mode == nstancev1.MachineMode_MACHINE_MODE_UNSPECIFIED:
		field, why = "assignment.mode", "it must be one that this server knows; upgrade the servers before the operator"
	case reset && a.Template != nil:
		field, why = "assignment.template", "with mode reset there is none"
	case reset:
	default:
		field, why = checkContent(a)
	}
	if size := proto.Size(a); field == "" && size > MaxPayload {
		field, why = "assignment", fmt.Sprintf("it has %d bytes, and may have %d; make files, units or CA bundles of the template smaller", size, MaxPayload)
	}
	if field != "" {
		return refusal.New(refusal.InvalidArgument, "INVALID_ASSIGNMENT", "%s: %s", field, why)
	}
	return nil
}

// checkContent reports what is wrong with what an assignment has built, and in which field; empty: nothing.
func checkContent(a *nstancev1.MachineAssignment) (field, why string) {
	c := a.GetConfiguration()
	switch {
	case !dnsName.MatchString(a.NodeName):
		return "assignment.node_name", "it must be a DNS name of at most 253 characters"
	case len(a.ExpectedNodeUid) > maxUID:
		return "assignment.expected_node_uid", fmt.Sprintf("it must have at most %d characters", maxUID)
	case !dnsLabel.MatchString(c.GetName()):
		return "assignment.configuration.name", "it must be a DNS label"
	case c.GetVersion() < 1:
		return "assignment.configuration.version", fmt.Sprintf("%d is less than 1", c.GetVersion())
	case !sha256.MatchString(c.GetHash()):
		return "assignment.configuration.hash", "it must be sha256: and 64 hexadecimal digits"
	case a.Template == nil:
		return "assignment.template", "it is missing"
	case a.ApiServer.GetEndpoint() == "":
		return "assignment.api_server.endpoint", "it is missing"
	}
	return "", ""
}

// checkCredential reports what is wrong with the credential for an assignment. It quotes
// nothing of it (S14).
func checkCredential(c *nstancev1.MachineCredential, a *nstancev1.MachineAssignment, now time.Time) error {
	if c == nil {
		return nil
	}
	size := proto.Size(c)
	field, why := "", ""
	switch {
	case a.GetMode() == nstancev1.MachineMode_MACHINE_MODE_RESET:
		field, why = "credential", "with mode reset there is none"
	case c.Epoch != a.GetEpoch():
		field, why = "credential.epoch", fmt.Sprintf("it is %d, and that of the assignment %d", c.Epoch, a.GetEpoch())
	case c.Sequence < 1:
		field, why = "credential.sequence", fmt.Sprintf("%d is less than 1", c.Sequence)
	case !c.ExpiresAt.IsValid():
		field, why = "credential.expires_at", "it is missing"
	case !now.Before(c.ExpiresAt.AsTime()):
		field, why = "credential.expires_at", "it is over; make a new credential"
	case size > MaxCredential:
		field, why = "credential", fmt.Sprintf("it has %d bytes, and may have %d", size, MaxCredential)
	}
	if field != "" {
		return refusal.New(refusal.InvalidArgument, "INVALID_CREDENTIAL", "%s: %s", field, why)
	}
	return nil
}
