package groupfile

import (
	"errors"
	"fmt"
)

var (
	// ErrNewer marks a group file of a version that this program does not know.
	// It must be left as it is: what it says is not known, and not nothing.
	ErrNewer = errors.New("written by a newer version")
	// ErrUnreadable marks a group file that is truncated, empty or not what a
	// group file is. It must not be taken for an empty one.
	ErrUnreadable = errors.New("unreadable")
)

// InvalidError refuses a request because of the value of one field.
type InvalidError struct {
	Field string // as it is called in the API
	Msg   string // what is wrong, and what would be right
}

// Error names the field and what is wrong with it.
func (e *InvalidError) Error() string { return e.Field + ": " + e.Msg }

// QuotaError refuses a change by which a tenant would have more than its quota.
type QuotaError struct {
	Field string // of the quota: machines, groups or bytes
	Would int    // what the tenant would have
	Limit int    // what it may have
}

// Error says what the change would come to, and what would help.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("the tenant would have %d %s, and its quota in this shard is %d; delete or shrink something, or have an administrator raise the quota",
		e.Would, e.Field, e.Limit)
}
