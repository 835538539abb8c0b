package layout

import (
	"errors"
	"fmt"

	"nstance.dev/protos/identity"
)

// MachineRecord is what the host of an instance builds its node machine from. There is one
// for each instance that was ever told; it goes with the record of the instance.
//
// Copies share Payload and Confirmed; replace them instead of changing them.
type MachineRecord struct {
	V          int         `json:"v"`    // set by Encode
	Term       uint64      `json:"term"` // of the leader that wrote it
	InstanceID identity.ID `json:"instance_id"`
	Tenant     string      `json:"tenant"`

	Epoch   int64  `json:"epoch"`   // number of the assignment, from 1
	Hash    string `json:"hash"`    // of the template; empty where nothing is to be built
	Payload []byte `json:"payload"` // the assignment as the agent is sent it, without its credential
	At      Time   `json:"at"`      // when it was stored first

	// Confirmed says that the machine has joined; nil: nobody has said so.
	Confirmed *NodeConfirmation `json:"confirmed,omitempty"`

	unknown *unknown
}

// NodeConfirmation says that the machine of an assignment has joined.
type NodeConfirmation struct {
	NodeUID string `json:"node_uid"`
	BootID  string `json:"boot_id"` // of the machine that the Node was seen with
	At      Time   `json:"at"`
}

// Key returns the key of r in a shard, or "" if r names nothing valid.
func (r MachineRecord) Key(shard string) string { return MachineKey(shard, r.Tenant, r.InstanceID) }

// Encode returns the document that [DecodeMachineRecord] reads. It refuses a record that
// could not be read again.
func (r MachineRecord) Encode() ([]byte, error) {
	r.V = version
	// Any shard will do: the document does not name it.
	if err := r.check(r.Key("a")); err != nil {
		return nil, fmt.Errorf("encode the assignment of instance %q: %w", r.InstanceID, err)
	}
	return encode(r, r.unknown)
}

// DecodeMachineRecord reads the document found under k. Errors are of type
// [*DocumentError].
func DecodeMachineRecord(k string, data []byte) (MachineRecord, error) {
	var r MachineRecord
	var err error
	if r.unknown, err = decode(data, &r); err == nil {
		err = r.check(k)
	}
	if err != nil {
		return MachineRecord{}, documentError(k, err)
	}
	return r, nil
}

func (r MachineRecord) check(k string) error {
	_, tenant, id, err := ParseMachineKey(k)
	switch {
	case err != nil:
		return err
	case r.InstanceID != id:
		return mismatch("instance_id", r.InstanceID.String(), id.String())
	case r.Tenant != tenant:
		return mismatch("tenant", r.Tenant, tenant)
	case r.Epoch < 1:
		return fmt.Errorf("member epoch: %d is less than 1", r.Epoch)
	case len(r.Payload) == 0:
		return errors.New("member payload is missing")
	case r.At.IsZero():
		return errors.New("member at is missing")
	}
	return nil
}
