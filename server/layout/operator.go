package layout

import (
	"fmt"

	"nstance.dev/protos/identity"
)

// OperatorRecord is the registration of one operator.
type OperatorRecord struct {
	V            int         `json:"v"` // set by Encode
	ID           identity.ID `json:"id"`
	Tenant       string      `json:"tenant"`
	ClusterID    string      `json:"cluster_id"`
	PublicKeyPEM string      `json:"public_key_pem"`
	Certificate  Certificate `json:"certificate"`
	NonceSHA256  string      `json:"nonce_sha256"`
	RegisteredAt Time        `json:"registered_at"`
	RenewedAt    Time        `json:"renewed_at"`

	// Role that all its certificates have; empty: an operator's.
	Role identity.Role `json:"role,omitempty"`

	// CoordinatesDrains: it has asked to be waited for when machines of its tenant
	// are to be deleted.
	CoordinatesDrains bool `json:"coordinates_drains,omitempty"`

	unknown *unknown
}

// Key returns the key of r, or "" if r names nothing valid.
func (r OperatorRecord) Key() string { return OperatorKey(r.Tenant, r.ID) }

// Encode returns the document that [DecodeOperatorRecord] reads. It refuses a
// record that could not be read again.
func (r OperatorRecord) Encode() ([]byte, error) {
	r.V = version
	if err := r.check(r.Key()); err != nil {
		return nil, fmt.Errorf("encode the record of operator %q: %w", r.ID, err)
	}
	return encode(r, r.unknown)
}

// DecodeOperatorRecord reads the document found under k. Errors are of type
// [*DocumentError].
func DecodeOperatorRecord(k string, data []byte) (OperatorRecord, error) {
	var r OperatorRecord
	var err error
	if r.unknown, err = decode(data, &r); err == nil {
		err = r.check(k)
	}
	if err != nil {
		return OperatorRecord{}, documentError(k, err)
	}
	return r, nil
}

func (r OperatorRecord) check(k string) error {
	tenant, id, err := ParseOperatorKey(k)
	switch {
	case err != nil:
		return err
	case r.ID != id:
		return mismatch("id", r.ID.String(), id.String())
	case r.Tenant != tenant:
		return mismatch("tenant", r.Tenant, tenant)
	}
	return nil
}

// OperatorNonce marks an operator's nonce as used up. The same operator may
// repeat its registration with the same key; nobody else can use the nonce.
type OperatorNonce struct {
	V               int         `json:"v"` // set by Encode
	OperatorID      identity.ID `json:"operator_id"`
	PublicKeySHA256 string      `json:"public_key_sha256"` // 64 hexadecimal digits

	// RegisteredAt is when the operator's record was first known to be durable;
	// zero before that. A record that is missing later was removed by somebody,
	// and the nonce does not bring it back.
	RegisteredAt Time `json:"registered_at"`

	unknown *unknown
}

// Encode returns the document that [DecodeOperatorNonce] reads.
func (n OperatorNonce) Encode() ([]byte, error) {
	n.V = version
	if err := n.check(); err != nil {
		return nil, fmt.Errorf("encode the mark of an operator's nonce: %w", err)
	}
	return encode(n, n.unknown)
}

// DecodeOperatorNonce reads the document found under k. Errors are of type
// [*DocumentError].
func DecodeOperatorNonce(k string, data []byte) (OperatorNonce, error) {
	var n OperatorNonce
	var err error
	if n.unknown, err = decode(data, &n); err == nil {
		err = n.check()
	}
	if err != nil {
		return OperatorNonce{}, documentError(k, err)
	}
	return n, nil
}

func (n OperatorNonce) check() error {
	if idPart(n.OperatorID, true) == "" {
		return fmt.Errorf("member operator_id: %q is not an operator's id", n.OperatorID)
	}
	if !isSHA256(n.PublicKeySHA256) {
		return fmt.Errorf("member public_key_sha256 is not 64 hexadecimal digits in lower case")
	}
	return nil
}
