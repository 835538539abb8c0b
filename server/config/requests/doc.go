// Package requests decides what callers of the API may change, before anything is written: the
// entry of a group ([CheckUpsert]), an on-demand instance ([CheckInstance]), and what a
// tenant may have in all ([CheckQuota]).
//
// The API cannot break a static group: its locked fields are refused by name. Errors are values
// that the caller translates: [groupfile.InvalidError], [groupfile.QuotaError],
// [LockedFieldError], [ManagedByOtherError] and [ErrGroupNotFound]. For what a tenant may not use
// they read as for a name that nobody has written (S12).
package requests
