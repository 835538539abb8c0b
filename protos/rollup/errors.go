package rollup

import (
	"errors"
	"fmt"
)

// What an [Error] is about, for errors.Is.
var (
	// ErrInvalid: the roll-up says something that is not allowed.
	ErrInvalid = errors.New("invalid roll-up")
	// ErrParts: the parts of a roll-up did not come in order and complete.
	ErrParts = errors.New("incomplete roll-up")
	// ErrReference: a roll-up refers to one that is not known in this session. The operator
	// sends it whole.
	ErrReference = errors.New("unknown roll-up referred to")
	// ErrTooLarge: the roll-up does not fit into the parts that it may have.
	ErrTooLarge = errors.New("roll-up too large")
)

// Error says why a roll-up is rejected: all of it, and the one before stays in force.
type Error struct {
	Kind     error  // ErrInvalid, ErrParts, ErrReference or ErrTooLarge
	Sequence uint64 // of the roll-up that is rejected
	Field    string // where, such as needs[3].min_unit[0].amount
	Reason   string // what it must be
}

// Error names the roll-up, the field and the reason.
func (e *Error) Error() string {
	return fmt.Sprintf("%v %d: %s %s", e.Kind, e.Sequence, e.Field, e.Reason)
}

// Unwrap makes errors.Is match the kind.
func (e *Error) Unwrap() error { return e.Kind }
