// Package status writes statuses: conditions, what a controller owns of an object, and what
// becomes of a write that came too late.
//
// A controller computes all conditions that it owns each time, from nothing but what it
// sees, and [Next] keeps of the old ones only when each became what it is. [Apply] writes
// what the controller owns, and nothing else, by server-side apply under a field manager of
// its own ([FieldManager]): what it leaves out of one write and had in the one before is
// removed; what others own stays. A write forces: whoever else wrote the same fields has lost
// them, which is right for fields that are ours by contract. A write that changes nothing is
// still a call, so who reconciles often compares first.
//
// A write that was decided from an old copy is refused. That is no failure:
// [RequeueConflicts], around every controller, has the work done again from a newer copy.
package status
