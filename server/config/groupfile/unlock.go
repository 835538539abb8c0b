package groupfile

import (
	"maps"
	"slices"

	"nstance.dev/server/config/document"
)

// Unlock completes the dynamic entry of a group that was static and has left
// the configuration, so that nothing about it changes but its freedom: what the
// entry does not set comes from the last static definition.
func Unlock(entry Entry, last document.Group) Entry {
	before := entry
	before.Unlocked = nil
	entry = complete(entry, last)
	entry.Unlocked = &Unlocked{Entry: before, Static: StaticGroup{Group: last}}
	return entry
}

func complete(entry Entry, last document.Group) Entry {
	entry.Template = last.Template
	entry.SubnetPool = last.SubnetPool
	entry.DrainTimeout = last.DrainTimeout
	entry.LoadBalancers = last.LoadBalancers
	entry.Rails = last.Rails
	entry.Args = maps.Clone(last.Args)
	entry.Mode, entry.Demand, entry.Node = last.Mode, last.Demand, last.Node
	if entry.Size == nil {
		entry.Size = last.Size
	}
	if entry.Types() == nil {
		entry.InstanceTypes, entry.InstanceRequirements = last.InstanceType, last.InstanceRequirements
	}
	vars := make(document.Vars, len(last.Vars)+len(entry.Vars))
	maps.Copy(vars, last.Vars)
	maps.Copy(vars, entry.Vars)
	entry.Vars = vars
	entry.DeletedAt = nil
	return entry
}

// Relock takes out of the entry of a group that is back in the configuration what
// [Unlock] had put into it and nobody has changed since: the configuration speaks
// again for all that the API did not set. False: nothing is left of the entry.
func Relock(entry Entry) (Entry, bool) {
	if entry.Unlocked == nil {
		return entry, true
	}
	before := entry.Unlocked.Entry
	filled := complete(before, entry.Unlocked.Static.Group)
	back := before // what is locked, and what this program does not know
	back.Manager, back.Retired, back.Rebuilt, back.extra = entry.Manager, entry.Retired, entry.Rebuilt, entry.extra
	back.DeletedAt = nil
	if !equalPtr(entry.Size, filled.Size) {
		back.Size = entry.Size
	}
	if !slices.Equal(entry.Types(), filled.Types()) {
		back.InstanceType, back.InstanceTypes = entry.InstanceType, entry.InstanceTypes
	}
	back.Vars = document.Vars{}
	for name, value := range entry.Vars {
		_, set := before.Vars[name]
		if given, known := filled.Vars[name]; set || !known || given != value {
			back.Vars[name] = value
		}
	}
	if len(back.Vars) == 0 {
		back.Vars = nil
	}
	return back, !back.Equal(Entry{})
}

func equalPtr[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
