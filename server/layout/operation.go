package layout

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"nstance.dev/protos/identity"
)

// OperationRecord is an operation on the power of an instance's machine. It is written before
// anything is sent to the provider, and again before each thing that is sent. It is kept for a
// while when it is over, as whoever asked may ask again.
//
// Copies share Params and Marks; replace them instead of changing them.
type OperationRecord struct {
	V    int    `json:"v"`    // set by Encode
	Term uint64 `json:"term"` // of the leader that wrote it

	ID         string            `json:"id"` // made by who asked: the UID of a MachineOperation
	Tenant     string            `json:"tenant"`
	InstanceID identity.ID       `json:"instance_id"`
	Name       string            `json:"name"`
	Params     map[string]string `json:"params,omitempty"`

	State    string          `json:"state"` // InProgress, Complete or Failed
	Reason   string          `json:"reason,omitempty"`
	Message  string          `json:"message,omitempty"`
	Marks    []OperationMark `json:"marks"`
	At       Time            `json:"at"` // when it was taken
	Deadline Time            `json:"deadline"`
	EndedAt  Time            `json:"ended_at,omitzero"`

	unknown *unknown
}

// OperationMark is what an operation has done or seen.
type OperationMark struct {
	Mark   string `json:"mark"`
	Action string `json:"action,omitempty"` // what was sent
	At     Time   `json:"at"`               // when it was set last
	Times  int    `json:"times"`            // how often

	Accepted Time `json:"accepted,omitzero"` // when the provider took what was sent last
}

// Key returns the key of r in a shard, or "" if r names nothing valid.
func (r OperationRecord) Key(shard string) string { return OperationKey(shard, r.Tenant, r.ID) }

// Encode returns the document that [DecodeOperationRecord] reads. It refuses a record that
// could not be read again.
func (r OperationRecord) Encode() ([]byte, error) {
	r.V = version
	// Any shard will do: the document does not name it.
	if err := r.check(r.Key("a")); err != nil {
		return nil, fmt.Errorf("encode operation %q: %w", r.ID, err)
	}
	return encode(r, r.unknown)
}

// DecodeOperationRecord reads the document found under k. Errors are of type
// [*DocumentError].
func DecodeOperationRecord(k string, data []byte) (OperationRecord, error) {
	var r OperationRecord
	var err error
	if r.unknown, err = decode(data, &r); err == nil {
		err = r.check(k)
	}
	if err != nil {
		return OperationRecord{}, documentError(k, err)
	}
	return r, nil
}

func (r OperationRecord) check(k string) error {
	_, tenant, id, err := ParseOperationKey(k)
	switch {
	case err != nil:
		return err
	case r.ID != id:
		return mismatch("id", r.ID, id)
	case r.Tenant != tenant:
		return mismatch("tenant", r.Tenant, tenant)
	case r.Name == "" || r.State == "":
		return errors.New("member name or state is missing")
	case r.At.IsZero() || r.Deadline.IsZero():
		return errors.New("member at or deadline is missing")
	}
	if _, err := identity.ParseID(r.InstanceID.String()); err != nil {
		return fmt.Errorf("member instance_id: %w", err)
	}
	return nil
}

// operationID is what an operation may be called: it stands in a key.
var operationID = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,62}[a-z0-9])?$`)

// ValidOperationID reports whether an operation may be called so.
func ValidOperationID(id string) bool { return operationID.MatchString(id) }

// OperationPrefix returns what the keys of the operations of all the shard's instances begin
// with.
func OperationPrefix(shard string) string { return key("operation/", shard, "/") }

// OperationKey returns the key of an operation.
func OperationKey(shard, tenant, id string) string {
	if !ValidOperationID(id) {
		return ""
	}
	return join(OperationPrefix(shard), key("", tenant, "."), id, ".json")
}

// ParseOperationKey reads what [OperationKey] returned. Errors match [ErrKey].
func ParseOperationKey(k string) (shard, tenant, id string, err error) {
	folder, name, ok := cutKey(k, "operation/", ".json")
	tenant, id, dotted := strings.Cut(name, ".")
	if !ok || !dotted || OperationKey(folder, tenant, id) != k {
		return "", "", "", keyError(k, "operation/{shard}/{tenant}.{id}.json")
	}
	return folder, tenant, id, nil
}
