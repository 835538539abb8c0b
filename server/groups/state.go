package groups

import (
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/fleet"
)

// state is what is in force. It is replaced, never changed.
type state struct {
	cfg        *effective.Config
	generation uint64 // grows whenever all groups are merged again

	file    *groupfile.File // nil: not known
	etag    string          // empty: not stored
	text    []byte          // of the file as it is stored; nil: not known
	read    bool            // text is known to be readable, but for what edits change
	blocked string          // why the file is not known; empty: it is

	groups  map[fleet.GroupID]*effective.Group
	rebuilt int // groups that wait to be confirmed
}
