package handback

import (
	"slices"

	"nstance.dev/server/lease"
)

// stored is a lock as it was read.
type stored struct {
	absent bool
	doc    lease.Document
	broken error // why doc could not be read
}

// decide says whether to give a lock back, of which the ended process noted these versions,
// and why or why not.
func decide(noted []lease.Document, now stored) (give bool, why string) {
	switch {
	case len(noted) == 0:
		return false, "the process did not hold it"
	case now.absent:
		return false, "it is absent"
	case now.broken != nil:
		return false, "it can't be read: " + now.broken.Error()
	case now.doc.Released:
		return false, "it is released already"
	case !slices.ContainsFunc(noted, now.doc.SameVersion):
		return false, "it is not in a version that the process wrote"
	default:
		return true, "the process that held it has ended"
	}
}
