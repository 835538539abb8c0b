package layout

import (
	"bytes"
	"encoding/json"
	"fmt"

	"nstance.dev/protos/identity"
)

// Status is how far an instance's record has come. It only ever moves forward.
type Status string

// The statuses. A record is pending from before the provider is first asked,
// registered once its agent has a certificate, and deleting from the decision
// that it has to go until the record itself is removed.
const (
	StatusPending    Status = "pending"
	StatusRegistered Status = "registered"
	StatusDeleting   Status = "deleting"
)

// InstanceRecord is the durable truth about one instance: that it exists, who
// it is and, once decided, why it has to go. It is written before the machine
// is asked for and removed after the machine is confirmed gone.
//
// Copies share Overrides, Reported, GroupEntry, Replace, Deletion, Purchase, Binding, Failed and Hold; replace
// them instead of changing them.
type InstanceRecord struct {
	V    int    `json:"v"`    // set by Encode
	Term uint64 `json:"term"` // of the leader that wrote it

	ID        identity.ID `json:"id"`
	Tenant    string      `json:"tenant"`
	ClusterID string      `json:"cluster_id"`
	Shard     string      `json:"shard"`
	Group     string      `json:"group"`
	Template  string      `json:"template"`
	Kind      string      `json:"kind"`
	OnDemand  bool        `json:"on_demand"`

	InstanceType string          `json:"instance_type"`
	Arch         string          `json:"arch"`
	SubnetPool   string          `json:"subnet_pool"`
	SubnetID     string          `json:"subnet_id"`
	Overrides    json.RawMessage `json:"overrides"`         // of the request; nil is written as {}
	InfraHash    string          `json:"infra_config_hash"` // what it was made from; never changes

	// UserdataSHA256 tells what stood at the address of the user data when the machine was made, in hex.
	// Empty: the user data stands in the configuration, the machine was adopted, or the record is from
	// before this member was.
	UserdataSHA256 string `json:"userdata_sha256,omitempty"`

	Provider   string `json:"provider"`
	ProviderID string `json:"provider_id"` // the provider's own id, not a URI; empty until the provider has answered
	ImageID    string `json:"image_id"`
	Hostname   string `json:"hostname"` // proved, as are the addresses
	IPv4       string `json:"ipv4"`
	IPv6       string `json:"ipv6"`

	// Reported is what the agent claimed at its registration, nil where all of that
	// was proved.
	Reported *ReportedPlace `json:"reported,omitempty"`

	Status    Status `json:"status"`
	CreatedAt Time   `json:"created_at"`
	// LaunchedAt is when the provider's answer to the create was noted; zero: it was not, or
	// by a server of before this member was. It is for people.
	LaunchedAt   Time   `json:"launched_at,omitzero"`
	RegisteredAt Time   `json:"registered_at"`
	NonceSHA256  string `json:"nonce_sha256"`
	NonceExpires Time   `json:"nonce_expires_at"`

	PublicKeyPEM string      `json:"public_key_pem"`
	Certificate  Certificate `json:"certificate"`

	// Replaces is the instance whose place this one was made to take, empty for
	// none: what is begun by one leader is finished by the next.
	Replaces identity.ID `json:"replaces,omitempty"`
	// Replace is the wish that this one be replaced, nil for none.
	Replace *ReplaceRequest `json:"replace_first,omitempty"`

	// GroupEntry is the entry of the group file that the instance was made by, without
	// what changes by itself: its group can be rebuilt from it where that file is
	// lost. Nil: there was none, it is too large to be kept with each instance, or the
	// record is from before this member was.
	GroupEntry json.RawMessage `json:"group_entry,omitempty"`

	// Trace is the span of the creation, as a W3C traceparent, where one is
	// recorded: the registration joins it, whoever leads by then.
	Trace string `json:"trace,omitempty"`

	Deletion *Deletion `json:"deletion"` // nil until condemned

	// Purchase is how the machine is paid for, where that was chosen with it; nil: by the group's
	// arguments. It never changes.
	Purchase *Purchase `json:"purchase,omitempty"`
	// Binding is which cluster the instance serves; nil: none, or its group does not say.
	Binding *Binding `json:"binding,omitempty"`
	// Served is the cluster that the machine last joined. What it left there stays on the machine
	// whatever becomes of the binding. Empty: it never joined one.
	Served string `json:"served,omitempty"`
	// Machine says that its Kubernetes node runs in a node machine that is built from a
	// MachineConfiguration, as its template said when it was made. It never changes.
	Machine bool `json:"machine,omitempty"`
	// Failed marks an instance that is of no use to any cluster; nil: it may be.
	Failed *Failure `json:"failed,omitempty"`
	// Hold says until when the instance may be silent or switched off; nil: there never was one.
	// It stays when it has ended.
	Hold *Hold `json:"hold,omitempty"`

	unknown *unknown
}

// ReportedPlace is what an agent said of its machine. It is for people who look for the
// reason of an empty address: nothing is decided by it.
type ReportedPlace struct {
	Hostname string `json:"hostname"`
	IPv4     string `json:"ipv4"`
	IPv6     string `json:"ipv6"`
}

// Certificate says which client certificate its owner holds. Serials are in the
// form of [identity.SerialString].
type Certificate struct {
	Serial string `json:"serial"`
	// PreviousSerial is that of the certificate before, which stays good until
	// the owner has been seen with the new one: the answer that carried the new
	// one may have been lost.
	PreviousSerial string `json:"previous_serial"`
	NotBefore      Time   `json:"not_before"`
	NotAfter       Time   `json:"not_after"`
}

// MarshalJSON writes times that are not set as empty texts: all members of a
// certificate are texts.
func (c Certificate) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Serial         string `json:"serial"`
		PreviousSerial string `json:"previous_serial"`
		NotBefore      string `json:"not_before"`
		NotAfter       string `json:"not_after"`
	}{c.Serial, c.PreviousSerial, c.NotBefore.String(), c.NotAfter.String()})
}

// ReplaceRequest is a caller's wish that an instance be replaced and then deleted.
type ReplaceRequest struct {
	RequestedAt Time `json:"requested_at"`
	SkipDrain   bool `json:"skip_drain"` // its deletion waits for no drain
}

// Hold says that an instance is silent or switched off on purpose.
type Hold struct {
	Reason string `json:"reason"` // rollout, reboot, repave or power
	Since  Time   `json:"since"`  // when it was set first
	Until  Time   `json:"until"`  // when it ends, or has ended
}

// check reports why the hold of a record cannot be read. A reason that is not known comes from
// a later version, and is as good as any.
func (h *Hold) check() error {
	switch {
	case h == nil:
		return nil
	case h.Reason == "":
		return fmt.Errorf("member hold: reason is missing")
	case h.Since.IsZero() || h.Until.IsZero():
		return fmt.Errorf("member hold: since or until is missing")
	}
	return nil
}

// Deletion is the decision that an instance has to go. The next leader resumes
// it instead of deciding anew.
type Deletion struct {
	Reason         string      `json:"reason"`
	RequestedAt    Time        `json:"requested_at"`
	DrainStartedAt Time        `json:"drain_started_at"` // zero: there is no drain
	DeleteAt       Time        `json:"delete_at"`        // zero: at once
	ReplacementID  identity.ID `json:"replacement_id"`
	// DrainAckedAt is when whoever drains said that it is done, or that it need not be; zero:
	// not yet. For a removal without a drain it is when a caller confirmed it, so that no
	// later leader takes it back. That has no field of its own, because a server of an
	// earlier version would not know the field, lead next and take the removal back: this
	// one had to be written as well.
	DrainAckedAt Time `json:"drain_acked_at,omitzero"`

	// GoneAt is when the machine was confirmed gone: the record is a tombstone from
	// then on. It is written only where tombstones are kept.
	GoneAt Time `json:"gone_at,omitzero"`
}

// Key returns the key of r, or "" if r names nothing valid.
func (r InstanceRecord) Key() string { return InstanceKey(r.Shard, r.Tenant, r.ID) }

// Encode returns the document that [DecodeInstanceRecord] reads. It refuses a
// record that could not be read again.
func (r InstanceRecord) Encode() ([]byte, error) {
	if len(r.Overrides) == 0 {
		r.Overrides = json.RawMessage("{}")
	}
	r.V = version
	if err := r.check(r.Key()); err != nil {
		return nil, fmt.Errorf("encode the record of instance %q: %w", r.ID, err)
	}
	return encode(r, r.unknown)
}

// DecodeInstanceRecord reads the document found under k. Errors are of type
// [*DocumentError].
func DecodeInstanceRecord(k string, data []byte) (InstanceRecord, error) {
	r, err := decodeRecord(data)
	if err == nil {
		err = r.check(k)
	}
	if err != nil {
		return InstanceRecord{}, documentError(k, err)
	}
	return r, nil
}

// decodeRecord reads a record wherever it stands. One that is written back byte
// for byte has no member that is not known, nor one in another case: most are
// like that, and need not be taken apart, which takes three times as long.
func decodeRecord(data []byte) (InstanceRecord, error) {
	var r InstanceRecord
	if json.Unmarshal(data, &r) == nil && r.V == version {
		if again, err := encode(r, nil); err == nil && bytes.Equal(again, data) {
			return r, nil
		}
	}
	r = InstanceRecord{}
	var err error
	r.unknown, err = decode(data, &r)
	return r, err
}

// check reports why r is not a record that may stand under k.
func (r InstanceRecord) check(k string) error {
	shard, tenant, id, err := ParseInstanceKey(k)
	switch {
	case err != nil:
		return err
	case r.ID != id:
		return mismatch("id", r.ID.String(), id.String())
	case r.Tenant != tenant:
		return mismatch("tenant", r.Tenant, tenant)
	case r.Shard != shard:
		return mismatch("shard", r.Shard, shard)
	case r.CreatedAt.IsZero():
		return fmt.Errorf("member created_at is missing")
	}
	if err := identity.ValidateName(r.Group); err != nil {
		return fmt.Errorf("member group: %w", err)
	}
	if err := r.Binding.check(); err != nil {
		return err
	}
	if err := r.Hold.check(); err != nil {
		return err
	}
	switch r.Status {
	case StatusPending, StatusRegistered, StatusDeleting:
		return nil
	}
	return fmt.Errorf("member status: %q is not pending, registered or deleting", r.Status)
}
