package layout

import (
	"fmt"

	"nstance.dev/protos/identity"
)

// Certlog says which certificates one batch issued to an instance. Logs are
// written once, kept as the audit trail, and never read by a server.
type Certlog struct {
	V            int                 `json:"v"`    // set by Encode
	Term         uint64              `json:"term"` // of the leader that issued them
	InstanceID   identity.ID         `json:"instance_id"`
	Tenant       string              `json:"tenant"`
	IssuedAt     Time                `json:"issued_at"`
	Certificates []IssuedCertificate `json:"certificates"`
}

// IssuedCertificate is one certificate of a batch.
type IssuedCertificate struct {
	Name      string `json:"name"`
	Serial    string `json:"serial"`
	ExpiresAt Time   `json:"expires_at"`
}

// Key returns the key of l in a shard, or "" if l names nothing valid.
func (l Certlog) Key(shard string) string {
	return CertlogKey(shard, l.Tenant, l.IssuedAt.Time, l.InstanceID)
}

// Encode returns the document that [DecodeCertlog] reads.
func (l Certlog) Encode() ([]byte, error) {
	l.V = version
	// Any shard will do: the document does not name it.
	if err := l.check(l.Key("a")); err != nil {
		return nil, fmt.Errorf("encode the certificate log of instance %q: %w", l.InstanceID, err)
	}
	return encode(l, nil)
}

// DecodeCertlog reads the document found under k. Errors are of type
// [*DocumentError].
func DecodeCertlog(k string, data []byte) (Certlog, error) {
	var l Certlog
	_, err := decode(data, &l)
	if err == nil {
		err = l.check(k)
	}
	if err != nil {
		return Certlog{}, documentError(k, err)
	}
	return l, nil
}

func (l Certlog) check(k string) error {
	_, tenant, at, id, err := ParseCertlogKey(k)
	switch {
	case err != nil:
		return err
	case l.InstanceID != id:
		return mismatch("instance_id", l.InstanceID.String(), id.String())
	case l.Tenant != tenant:
		return mismatch("tenant", l.Tenant, tenant)
	case FormatTimestamp(l.IssuedAt.Time) != FormatTimestamp(at):
		return mismatch("issued_at", FormatTimestamp(l.IssuedAt.Time), FormatTimestamp(at))
	}
	return nil
}
