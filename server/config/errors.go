package config

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
	// ErrGroupNotFound says that a tenant has no group of that key.
	ErrGroupNotFound = errors.New("group not found")
)

// LockedFieldError refuses a change of a field that a static group keeps for
// its configuration file.
type LockedFieldError struct {
	Field string // template, subnet_pool, args or load_balancers
}

// Error names the field and the remedy.
func (e *LockedFieldError) Error() string {
	return fmt.Sprintf("%s: locked, because the group is in the server's configuration; change it there", e.Field)
}

// InvalidError refuses a request because of the value of one field.
type InvalidError struct {
	Field string // as it is called in the API
	Msg   string // what is wrong, and what would be right
}

// Error names the field and what is wrong with it.
func (e *InvalidError) Error() string { return e.Field + ": " + e.Msg }

// ManagedByOtherError refuses a change of a group that another manager looks
// after.
type ManagedByOtherError struct {
	Manager string // whose group it is
}

// Error names the manager.
func (e *ManagedByOtherError) Error() string {
	return fmt.Sprintf("group is managed by %s; take it over once to change it", e.Manager)
}
