package requests

import (
	"errors"
	"fmt"
)

// ErrGroupNotFound says that a tenant has no group of that key.
var ErrGroupNotFound = errors.New("group not found")

// LockedFieldError refuses a change of a field that a static group keeps for
// its configuration file.
type LockedFieldError struct {
	Field string // template, subnet_pool, args or load_balancers
}

// Error names the field and the remedy.
func (e *LockedFieldError) Error() string {
	return fmt.Sprintf("%s: locked, because the group is in the server's configuration; change it there", e.Field)
}

// ManagedByOtherError refuses a change of a group that another manager looks
// after.
type ManagedByOtherError struct {
	Manager string // whose group it is
}

// Error names the manager.
func (e *ManagedByOtherError) Error() string {
	return fmt.Sprintf("group is managed by %s; take it over once to change it", e.Manager)
}

// DemandGroupError refuses a size for a group of mode demand.
type DemandGroupError struct {
	Group string
}

// Error says what the group has instead of a size.
func (e *DemandGroupError) Error() string {
	return fmt.Sprintf("size: group %s is of mode demand and has none: how many machines it has follows from what its cluster needs; set demand.min and demand.max, or mode fixed together with a size", e.Group)
}
