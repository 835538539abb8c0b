package aggregate

// Place is where the Pod of a request runs. The zero value: nowhere yet, or there is no Pod.
type Place struct {
	// Foreign: it runs on a Node that is no machine of ours.
	Foreign bool
	// Draining: it runs on a Node whose work is being moved away.
	Draining bool
	// Ending: the Pod is being deleted.
	Ending bool
	// Recreated: when the Pod is evicted something makes another one in its place, such as a
	// ReplicaSet.
	Recreated bool
}

// Counted says whether a request is part of the roll-up. countForeign is the setting to count
// what runs on foreign Nodes too.
//
//   - What runs on a foreign Node has its machine: counting it would buy the whole of an
//     existing cluster again.
//   - A Pod that ends together with the work of a draining Node needs no machine after it: one
//     that is being deleted, whose replacement is a Pod of its own, and one that nothing makes
//     again. The draining machine serves no need any longer, so counting them would buy one
//     for Pods that never come.
//   - A Pod on a draining Node that will be made again counts: its replacement needs the room
//     as soon as it is evicted.
func (p Place) Counted(countForeign bool) bool {
	if p.Foreign && !countForeign {
		return false
	}
	return !p.Draining || p.Recreated && !p.Ending
}
