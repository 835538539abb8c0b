package groups

import (
	"context"
	"errors"

	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/refusal"
)

// errEditLost answers an edit that kept losing against another writer.
var errEditLost = &refusal.Error{Code: refusal.Aborted, Reason: "EDIT_LOST", Message: "another writer kept changing the group file; try again"}

// errUnreadable answers edits while the group file is there and not understood.
var errUnreadable = &refusal.Error{Code: refusal.FailedPrecondition, Reason: "GROUP_FILE_UNREADABLE",
	Message: "the group file of the shard cannot be read; it has to be repaired first"}

// errUnknown answers for groups that do not exist and for those of other tenants alike (S12).
func errUnknown(key string) *refusal.Error {
	return refusal.New(refusal.NotFound, "NOT_FOUND", "group %q not found", key)
}

// refused says to a caller why an edit is not made; nil: it is.
func refused(err error) error {
	var (
		already *refusal.Error
		locked  *requests.LockedFieldError
		invalid *groupfile.InvalidError
		managed *requests.ManagedByOtherError
		quota   *groupfile.QuotaError
		demand  *requests.DemandGroupError
	)
	switch {
	case err == nil, errors.As(err, &already), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &locked):
		return refusal.New(refusal.FailedPrecondition, "LOCKED_FIELD", "%v", err).About(locked.Field)
	case errors.As(err, &demand):
		return refusal.New(refusal.FailedPrecondition, "GROUP_IS_DEMAND", "%v", err)
	case errors.As(err, &managed):
		return refusal.New(refusal.FailedPrecondition, "MANAGED_BY_OTHER", "%v", err)
	case errors.As(err, &invalid):
		return refusal.New(refusal.InvalidArgument, "INVALID_GROUP", "%v", err).About(invalid.Field)
	case errors.As(err, &quota), errors.Is(err, groupfile.ErrTooLarge):
		return refusal.New(refusal.ResourceExhausted, "QUOTA_EXCEEDED", "%v", err)
	case errors.Is(err, requests.ErrGroupNotFound):
		return refusal.New(refusal.NotFound, "NOT_FOUND", "group not found")
	default:
		return refusal.Storage(err, groupfile.ErrUnreadable, groupfile.ErrNewer, objectstore.ErrNotFound)
	}
}
