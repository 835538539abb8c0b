// Package operatorauth knows who may operate a cluster: it registers operators,
// renews their certificates, and notices when one of them is removed.
//
// The truth is one record for each operator in object storage. The cluster's
// leader writes it before the certificate leaves; every server reads it to
// decide whether a certificate still counts. Deleting the record is the
// revocation: there is no other list.
//
// A nonce registers one public key (S9). That it is used is an object of its
// own, created before anything is signed, so two servers that both believe they
// lead cannot both spend it. The owner of the key may ask again with the same
// nonce, for the first answer may have been lost.
//
// A [Registry] is the running half of this and belongs to one process. [Enrol]
// needs none of it: whoever may write to the storage can enrol an operator.
package operatorauth

import "errors"

// Errors that a caller acts on. Their texts are safe to show; what they wrap
// beside them is for the log.
var (
	// ErrNotLeader: this server does not lead the cluster; another one may.
	ErrNotLeader = errors.New("not cluster leader")

	// ErrRefused: the nonce registers nobody here (F42). Why is in the wrapped
	// error, and helps only whoever forged it.
	ErrRefused = errors.New("registration refused")

	// ErrUsed: another key was registered with this nonce.
	ErrUsed = errors.New("the nonce has been used")

	// ErrUnknown: the certificate is not, or no longer, one of a registered
	// operator.
	ErrUnknown = errors.New("the operator is not registered")

	// ErrUnavailable: storage did not answer. Nothing was issued; try again.
	ErrUnavailable = errors.New("the operator's record could not be read or written")
)

// InvalidError says what is wrong with a field of a request.
type InvalidError struct {
	Field string // as it is called in the API
	Msg   string // what is wrong, and what would be right
}

// Error names the field and what is wrong with it.
func (e *InvalidError) Error() string { return e.Field + ": " + e.Msg }
